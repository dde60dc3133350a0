// Builds the plugin's module, links libatelico and stages the bundle (library, interpreter, packages) with the game.
//
// The bundle is what `atelico bundle --for unreal --out DIR` makes. It lies in Binaries/ThirdParty/atelico/<Platform>,
// or where the environment variable ATELICO_BUNDLE says. It stays a folder of ordinary files (NonUFS): the library finds
// the interpreter beside itself, and neither can be read out of a .pak.

using System;
using System.IO;
using UnrealBuildTool;

public class AtelicoRuntime : ModuleRules
{
    public AtelicoRuntime(ReadOnlyTargetRules Target) : base(Target)
    {
        PCHUsage = PCHUsageMode.UseExplicitOrSharedPCHs;
        bEnableExceptions = false;
        bUseRTTI = false;

        PublicDependencyModuleNames.AddRange(new string[] { "Core", "CoreUObject", "Engine", "DeveloperSettings" });
        PrivateDependencyModuleNames.Add("Projects");
        PublicSystemIncludePaths.Add(Path.Combine(PluginDirectory, "Source", "ThirdParty", "atelico", "include"));

        string Bundle = Environment.GetEnvironmentVariable("ATELICO_BUNDLE");
        if (string.IsNullOrEmpty(Bundle))
        {
            Bundle = Path.Combine(PluginDirectory, "Binaries", "ThirdParty", "atelico", Target.Platform.ToString());
        }
        PublicSystemIncludePaths.Add(Path.GetDirectoryName(Find(Bundle, "atelico.h")));

        if (Target.Platform == UnrealTargetPlatform.Win64)
        {
            // Loaded by AtelicoModule.cpp, because the bundle's folder is not on the search path of the game.
            PublicAdditionalLibraries.Add(Find(Bundle, "atelico.lib"));
            PublicDelayLoadDLLs.Add("atelico.dll");
            PublicDefinitions.Add("ATELICO_LIBRARY_NAME=TEXT(\"atelico.dll\")");
        }
        else
        {
            string Library = Find(Bundle, Target.Platform == UnrealTargetPlatform.Mac ? "libatelico.dylib" : "libatelico.so");
            PublicAdditionalLibraries.Add(Library);
            PublicRuntimeLibraryPaths.Add(Path.GetDirectoryName(Library));
        }

        foreach (string Staged in Directory.GetFiles(Bundle, "*", SearchOption.AllDirectories))
        {
            RuntimeDependencies.Add(Staged, StagedFileType.NonUFS);
        }
    }

    // The file `Name` in the bundle.
    private static string Find(string Bundle, string Name)
    {
        string[] Found = Directory.Exists(Bundle)
            ? Directory.GetFiles(Bundle, Name, SearchOption.AllDirectories)
            : new string[0];
        if (Found.Length == 0)
        {
            throw new BuildException("atelico: " + Name + " is not in " + Bundle
                + ". Make the bundle there with `atelico bundle --for unreal --out`, or set ATELICO_BUNDLE to its folder.");
        }
        return Found[0];
    }
}
