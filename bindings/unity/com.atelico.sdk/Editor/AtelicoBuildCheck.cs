using System.IO;
using UnityEditor;
using UnityEditor.Build;
using UnityEditor.Build.Reporting;
using UnityEngine;

namespace Atelico.Editor
{
    /// <summary>Warns at build time about what would otherwise be missed only in the built game.</summary>
    internal sealed class AtelicoBuildCheck : IPreprocessBuildWithReport
    {
        public int callbackOrder
        {
            get { return 0; }
        }

        public void OnPreprocessBuild(BuildReport report)
        {
            string library = LibraryOf(report.summary.platform);
            if (library == null)
            {
                Debug.LogWarning("atelico does not run on " + report.summary.platform + ": engines will fail with InitFailed.");
            }
            else if (!File.Exists(Path.Combine(AtelicoPaths.Bundle, library)))
            {
                Debug.LogWarning("atelico: " + library + " is not in " + AtelicoPaths.Bundle
                    + ". Make the bundle there with `atelico bundle --for unity --out`.");
            }
            if (!Directory.Exists(AtelicoPaths.Models) || Directory.GetFiles(AtelicoPaths.Models, "*.gguf", SearchOption.AllDirectories).Length == 0)
            {
                Debug.LogWarning("atelico: there is no .gguf in " + AtelicoPaths.Models + ".");
            }
        }

        private static string LibraryOf(BuildTarget target)
        {
            switch (target)
            {
                case BuildTarget.StandaloneLinux64: return "libatelico.so";
                case BuildTarget.StandaloneWindows64: return "atelico.dll";
                case BuildTarget.StandaloneOSX: return "libatelico.dylib";
                default: return null;
            }
        }
    }
}
