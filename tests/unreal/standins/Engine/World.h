#pragma once
#include "CoreMinimal.h"

class UWorld : public UObject {
  public:
    class UGameInstance *GetGameInstance() const { return standin_game_instance; }
    class UGameInstance *standin_game_instance = nullptr;
};
