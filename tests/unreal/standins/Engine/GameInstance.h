#pragma once
#include "Subsystems/GameInstanceSubsystem.h"

class UGameInstance : public UObject {
  public:
    template <typename T> T *GetSubsystem() const { return static_cast<T *>(standin_subsystem); }
    UGameInstanceSubsystem *standin_subsystem = nullptr;
};
