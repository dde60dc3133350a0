using System;
using Microsoft.Win32.SafeHandles;

namespace Atelico.Native
{
    /// <summary>
    /// Owns an atelico_engine. Ending one returns at once in every state, so a finalizer may do it too.
    /// </summary>
    public sealed class EngineHandle : SafeHandleZeroOrMinusOneIsInvalid
    {
        // Called by the marshaller.
        private EngineHandle() : base(true)
        {
        }

        /// <summary>
        /// End the engine now, also while another thread waits inside a call: Dispose alone would wait for that call. The
        /// library takes no harm from handles of ended engines.
        /// </summary>
        public void End()
        {
            if (!IsClosed && !IsInvalid)
            {
                AtelicoNative.atelico_destroy(handle);
            }
            Dispose();
        }

        protected override bool ReleaseHandle()
        {
            AtelicoNative.atelico_destroy(handle);
            return true;
        }
    }
}
