#pragma once
#include "CoreMinimal.h"

struct FPaths {
    static FString Combine(const FString &first, const FString &second) {
        FString path = first;
        path += FString(TEXT("/"));
        path += second;
        return path;
    }
    static FString ProjectContentDir() { return FString(TEXT("/Game/Содержание")); }
    static FString ConvertRelativePathToFull(const FString &path) { return path; }
};
