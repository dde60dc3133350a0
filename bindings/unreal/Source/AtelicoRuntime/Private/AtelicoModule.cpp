// The module's start: on Windows, loads the library out of the plugin's own folder. Elsewhere the loader finds it.

#include "Interfaces/IPluginManager.h"
#include "HAL/PlatformProcess.h"
#include "Misc/Paths.h"
#include "Modules/ModuleManager.h"

DEFINE_LOG_CATEGORY_STATIC(LogAtelicoModule, Log, All);

class FAtelicoRuntimeModule : public IModuleInterface
{
public:
	virtual void StartupModule() override
	{
#ifdef ATELICO_LIBRARY_NAME
		const TSharedPtr<IPlugin> Plugin = IPluginManager::Get().FindPlugin(TEXT("Atelico"));
		const FString Folder = FPaths::Combine(Plugin->GetBaseDir(), TEXT("Binaries/ThirdParty/atelico/Win64"));
		const FString File = FPaths::Combine(Folder, ATELICO_LIBRARY_NAME);
		if (FPlatformProcess::GetDllHandle(*File) == nullptr)
		{
			UE_LOG(LogAtelicoModule, Error, TEXT("%s could not be loaded. Is the bundle staged, and did a virus scanner remove it?"), *File);
		}
#endif
	}
	// The library stays in memory: an interpreter cannot be started twice in one process.
};

IMPLEMENT_MODULE(FAtelicoRuntimeModule, AtelicoRuntime)
