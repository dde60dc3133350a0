// Stand-ins for the few types of UnityEditor that the package uses: they only have to compile.

using System;

namespace UnityEditor
{
    public sealed class InitializeOnLoadAttribute : Attribute { }

    public enum PlayModeStateChange { EnteredEditMode, ExitingEditMode, EnteredPlayMode, ExitingPlayMode }

    public enum BuildTarget { StandaloneLinux64, StandaloneWindows64, StandaloneOSX, Android }

    public static class AssemblyReloadEvents
    {
        public delegate void AssemblyReloadCallback();

        public static event AssemblyReloadCallback beforeAssemblyReload;

        public static void StandInReload() { beforeAssemblyReload(); }
    }

    public static class EditorApplication
    {
        public static event Action quitting;

        public static event Action<PlayModeStateChange> playModeStateChanged;

        public static void StandInQuit() { quitting(); }

        public static void StandInChange(PlayModeStateChange change) { playModeStateChanged(change); }
    }
}

namespace UnityEditor.Build
{
    public interface IPreprocessBuildWithReport
    {
        int callbackOrder { get; }

        void OnPreprocessBuild(UnityEditor.Build.Reporting.BuildReport report);
    }
}

namespace UnityEditor.Build.Reporting
{
    public struct BuildSummary
    {
        public BuildTarget platform;
    }

    public class BuildReport
    {
        public BuildSummary summary;
    }
}
