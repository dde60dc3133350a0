// Stand-ins for the few types of UnityEngine that the package uses, so that it compiles and its logic runs on mono.
// Passing here is not passing in Unity.

using System;
using System.Collections.Generic;

namespace UnityEngine
{
    public class Object
    {
    }

    public class MonoBehaviour : Object
    {
    }

    public enum RuntimeInitializeLoadType { SubsystemRegistration }

    [AttributeUsage(AttributeTargets.Method)]
    public sealed class RuntimeInitializeOnLoadMethodAttribute : Attribute
    {
        public RuntimeInitializeOnLoadMethodAttribute(RuntimeInitializeLoadType type) { }
    }

    public sealed class SerializeField : Attribute { }

    public sealed class TextAreaAttribute : Attribute { }

    public sealed class DisallowMultipleComponent : Attribute { }

    public sealed class TooltipAttribute : Attribute
    {
        public TooltipAttribute(string text) { }
    }

    public sealed class AddComponentMenu : Attribute
    {
        public AddComponentMenu(string path) { }
    }

    public static class Application
    {
        public static event Action quitting;

        public static string streamingAssetsPath
        {
            get { return Environment.GetEnvironmentVariable("STREAMING_ASSETS") ?? "/nowhere"; }
        }

        public static void StandInQuit()
        {
            if (quitting != null)
            {
                quitting();
            }
        }
    }

    public static class Debug
    {
        public static readonly List<string> StandInLog = new List<string>();

        public static void Log(object message) { StandInLog.Add("log: " + message); }

        public static void LogWarning(object message) { StandInLog.Add("warning: " + message); }

        public static void LogError(object message, Object context) { StandInLog.Add("error: " + message); }
    }
}
