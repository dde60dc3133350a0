#pragma once
#include "CoreMinimal.h"

struct FPlatformProcess {
    static void *GetDllHandle(const TCHAR *) { return nullptr; }
};
