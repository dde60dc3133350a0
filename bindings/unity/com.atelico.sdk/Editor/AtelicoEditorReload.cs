using UnityEditor;

namespace Atelico.Editor
{
    /// <summary>Ends engines before scripts are reloaded and when Play has ended, so that none outlives its objects.</summary>
    [InitializeOnLoad]
    internal static class AtelicoEditorReload
    {
        static AtelicoEditorReload()
        {
            AssemblyReloadEvents.beforeAssemblyReload += LivingEngines.DisposeAll;
            EditorApplication.quitting += LivingEngines.DisposeAll;
            EditorApplication.playModeStateChanged += change =>
            {
                if (change == PlayModeStateChange.EnteredEditMode)
                {
                    LivingEngines.DisposeAll();
                }
            };
        }
    }
}
