using System;
using System.Runtime.InteropServices;

namespace Atelico.Native
{
    /// <summary>
    /// The functions of atelico.h, which documents them. Texts are UTF-8 with a NUL at the end (see Utf8.Terminated). No
    /// callbacks: nothing here keeps a managed object, so scripts may be reloaded at any time.
    /// </summary>
    public static class AtelicoNative
    {
        public const int AbiVersion = 1;

        private const string Library = "atelico";

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern int atelico_abi_version();

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr atelico_version();

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern EngineHandle atelico_create(byte[] config_json);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void atelico_destroy(IntPtr engine);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern int atelico_load_model(EngineHandle engine, byte[] model);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern int atelico_model_state(EngineHandle engine, byte[] model, out float progress);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern int atelico_chat_completion(EngineHandle engine, byte[] request_json, byte[] buf, int buf_len);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern long atelico_chat_begin(EngineHandle engine, byte[] request_json);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern int atelico_chat_poll(EngineHandle engine, long job, byte[] buf, int buf_len);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern int atelico_chat_cancel(EngineHandle engine, long job);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern int atelico_last_error(byte[] buf, int buf_len);
    }
}
