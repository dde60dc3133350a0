using System;

namespace Atelico.Native
{
    /// <summary>A buffer that library calls fill. It grows to the largest text and is used again; nothing is lost.</summary>
    internal sealed class NativeBuffer
    {
        private byte[] _bytes = new byte[16 * 1024];

        /// <summary>Call until the text fits. Returns the text's length, or a negative result.</summary>
        public int Fill(Func<byte[], int> call)
        {
            while (true)
            {
                int length = call(_bytes);
                if (length < _bytes.Length)
                {
                    return length;
                }
                _bytes = new byte[length + 1];
            }
        }

        public string Text(int length)
        {
            return Utf8.Text(_bytes, length);
        }

        /// <summary>Why this thread's last call failed.</summary>
        public static AtelicoException LastError(long result)
        {
            var buffer = new NativeBuffer();
            int length = buffer.Fill(bytes => AtelicoNative.atelico_last_error(bytes, bytes.Length));
            return new AtelicoException((AtelicoResult)result, buffer.Text(Math.Max(length, 0)));
        }
    }
}
