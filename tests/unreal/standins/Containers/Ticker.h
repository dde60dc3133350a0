#pragma once
#include "CoreMinimal.h"

using FTickerDelegateFunction = std::function<bool(float)>;
struct FTickerDelegate {
    FTickerDelegateFunction function;
    template <typename T> static FTickerDelegate CreateUObject(T *object, bool (T::*member)(float)) {
        return {[object, member](float seconds) { return (object->*member)(seconds); }};
    }
};

class FTSTicker {
  public:
    using FDelegateHandle = int;
    static FTSTicker &GetCoreTicker() {
        static FTSTicker ticker;
        return ticker;
    }
    FDelegateHandle AddTicker(const FTickerDelegate &delegate) {
        delegates_[++last_] = delegate.function;
        return last_;
    }
    void RemoveTicker(FDelegateHandle handle) { delegates_.erase(handle); }
    void standin_tick() {
        for (const auto &[handle, function] : std::map(delegates_))
            if (delegates_.count(handle) != 0) function(1.0f / 60);
    }

  private:
    std::map<int, FTickerDelegateFunction> delegates_;
    int last_ = 0;
};
