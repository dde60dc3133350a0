// Stand-ins for the few types of Unreal's build tool that AtelicoRuntime.Build.cs uses, and a program that runs it.

using System;
using System.Collections.Generic;

namespace UnrealBuildTool
{
    public enum PCHUsageMode { UseExplicitOrSharedPCHs }
    public enum StagedFileType { UFS, NonUFS }
    public enum UnrealTargetPlatform { Linux, Win64, Mac }

    public class BuildException : Exception
    {
        public BuildException(string message) : base(message) { }
    }

    public class ReadOnlyTargetRules
    {
        public UnrealTargetPlatform Platform = UnrealTargetPlatform.Linux;
    }

    public class RuntimeDependencyList
    {
        public void Add(string path, StagedFileType type)
        {
            Console.WriteLine("stage " + type + " " + path);
        }
    }

    public class ModuleRules
    {
        public static string Plugin;
        public PCHUsageMode PCHUsage;
        public bool bEnableExceptions, bUseRTTI;
        public string PluginDirectory { get { return Plugin; } }
        public List<string> PublicDependencyModuleNames = new List<string>();
        public List<string> PrivateDependencyModuleNames = new List<string>();
        public List<string> PublicSystemIncludePaths = new List<string>();
        public List<string> PublicAdditionalLibraries = new List<string>();
        public List<string> PublicDelayLoadDLLs = new List<string>();
        public List<string> PublicDefinitions = new List<string>();
        public List<string> PublicRuntimeLibraryPaths = new List<string>();
        public RuntimeDependencyList RuntimeDependencies = new RuntimeDependencyList();

        public ModuleRules(ReadOnlyTargetRules target) { }
    }
}

public static class Program
{
    public static void Main(string[] arguments)
    {
        UnrealBuildTool.ModuleRules.Plugin = arguments[0];
        try
        {
            var rules = new AtelicoRuntime(new UnrealBuildTool.ReadOnlyTargetRules());
            rules.PublicAdditionalLibraries.ForEach(path => Console.WriteLine("link " + path));
            rules.PublicRuntimeLibraryPaths.ForEach(path => Console.WriteLine("rpath " + path));
        }
        catch (UnrealBuildTool.BuildException exception)
        {
            Console.WriteLine("refused: " + exception.Message);
        }
    }
}
