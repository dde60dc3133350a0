using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Atelico.Native
{
    /// <summary>
    /// Finds libatelico. A library in one of Folders is opened by its full path, before the first call; the system then
    /// takes that one. Who calls AtelicoNative directly calls EnsureLoaded first, in another method. Where there is none, Unity's Plugins folders and the system's own search decide.
    /// </summary>
    public static class AtelicoLibrary
    {
        private static bool _loaded;

        /// <summary>Folders with a bundle, in order. The first that has the library wins.</summary>
        public static List<string> Folders { get; } = new List<string>();

        public static string FileName
        {
            get
            {
                return Path.DirectorySeparatorChar == '\\' ? "atelico.dll"
                    : IsMac ? "libatelico.dylib"
                    : "libatelico.so";
            }
        }

        private static bool IsMac
        {
            get { return Directory.Exists("/System/Library/CoreServices"); }
        }

        /// <summary>Open the library and see that it is the right one.</summary>
        /// <exception cref="AtelicoException">It is missing, cannot be opened or is another version (InitFailed).</exception>
        public static void EnsureLoaded()
        {
            if (_loaded)
            {
                return;
            }
            string file = Folders.ConvertAll(folder => Path.Combine(folder, FileName)).Find(File.Exists);
            if (file != null && !Open(file))
            {
                throw Failed(file + " cannot be opened. Is a file of its bundle missing, or was it taken by a virus scanner?");
            }
            try
            {
                int version = AbiVersion();
                if (version != AtelicoNative.AbiVersion)
                {
                    throw Failed("The library has interface " + version + ", this package needs " + AtelicoNative.AbiVersion
                        + ". Take both from the same release.");
                }
            }
            catch (Exception exception) when (exception is DllNotFoundException || exception is EntryPointNotFoundException
                || exception is BadImageFormatException)
            {
                throw Failed(FileName + " was not found in " + string.Join(", ", Folders)
                    + " or a Plugins folder. Put the bundle into Assets/StreamingAssets/atelico.");
            }
            _loaded = true;
        }

        // Mono looks for a library when it compiles a method that calls it, and remembers what it did not find. So these
        // calls have methods of their own, entered after EnsureLoaded.

        [MethodImpl(MethodImplOptions.NoInlining)]
        internal static EngineHandle Create(byte[] config)
        {
            return AtelicoNative.atelico_create(config);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        internal static string Version()
        {
            return Marshal.PtrToStringAnsi(AtelicoNative.atelico_version());
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        private static int AbiVersion()
        {
            return AtelicoNative.atelico_abi_version();
        }

        private static AtelicoException Failed(string message)
        {
            return new AtelicoException(AtelicoResult.InitFailed, message);
        }

        private static bool Open(string file)
        {
            if (Path.DirectorySeparatorChar == '\\')
            {
                return LoadLibraryExW(file, IntPtr.Zero, AlteredSearchPath) != IntPtr.Zero;
            }
            return (IsMac ? dlopen_mac(file, Now) : dlopen_linux(file, Now)) != IntPtr.Zero;
        }

        private const int Now = 2;                // RTLD_NOW
        private const uint AlteredSearchPath = 8; // look for its dependencies beside it

        [DllImport("kernel32", CharSet = CharSet.Unicode, ExactSpelling = true, SetLastError = true)]
        private static extern IntPtr LoadLibraryExW(string file, IntPtr reserved, uint flags);

        [DllImport("libdl.so.2", EntryPoint = "dlopen")]
        private static extern IntPtr dlopen_linux(string file, int flags);

        [DllImport("libSystem.dylib", EntryPoint = "dlopen")]
        private static extern IntPtr dlopen_mac(string file, int flags);
    }
}
