#pragma once
#include "CoreMinimal.h"

class UCancellableAsyncAction : public UObject {
  public:
    virtual void Activate() {}
    virtual void Cancel() { SetReadyToDestroy(); }
    void RegisterWithGameInstance(const UObject *) { standin_registered = true; }
    virtual void SetReadyToDestroy() { standin_registered = false; }
    bool ShouldBroadcastDelegates() const { return standin_registered; }
    bool standin_registered = false;
};
