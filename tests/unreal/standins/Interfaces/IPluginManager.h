#pragma once
#include "CoreMinimal.h"

class IPlugin {
  public:
    FString GetBaseDir() const { return FString(TEXT("/Plugins/Atelico")); }
};
class IPluginManager {
  public:
    static IPluginManager &Get() {
        static IPluginManager manager;
        return manager;
    }
    TSharedPtr<IPlugin> FindPlugin(const FString &) { return MakeShared<IPlugin>(); }
};
