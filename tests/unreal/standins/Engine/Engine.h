#pragma once
#include "Engine/World.h"

enum class EGetWorldErrorMode { LogAndReturnNull };
class UEngine : public UObject {
  public:
    UWorld *GetWorldFromContextObject(const UObject *object, EGetWorldErrorMode) const {
        return object != nullptr ? object->GetWorld() : nullptr;
    }
};
inline UEngine standin_engine;
inline UEngine *GEngine = &standin_engine;
