#pragma once
#include "CoreMinimal.h"

namespace EEndPlayReason {
enum Type { Destroyed, EndPlayInEditor };
}
class UActorComponent : public UObject {
  public:
    virtual void EndPlay(const EEndPlayReason::Type) {}
};
