// The Blueprint node "Atelico Chat": one request, with a pin for each kind of event.
#pragma once

#include "CoreMinimal.h"
#include "Engine/CancellableAsyncAction.h"
#include "AtelicoTypes.h"
#include "AtelicoChatAsyncAction.generated.h"

// One signature for all pins: the editor makes the node's outputs from the first delegate only.
DECLARE_DYNAMIC_MULTICAST_DELEGATE_ThreeParams(FAtelicoChatAsyncEvent, const FString&, Delta, const FAtelicoResponse&,
	Response, const FAtelicoError&, Error);

UCLASS()
class ATELICORUNTIME_API UAtelicoChatAsyncAction : public UCancellableAsyncAction
{
	GENERATED_BODY()

public:
	/** New text: see Delta. */
	UPROPERTY(BlueprintAssignable)
	FAtelicoChatAsyncEvent OnDelta;

	/** The answer: see Response. */
	UPROPERTY(BlueprintAssignable)
	FAtelicoChatAsyncEvent OnCompleted;

	/** What went wrong: see Error. */
	UPROPERTY(BlueprintAssignable)
	FAtelicoChatAsyncEvent OnFailed;

	/** Ask a language model on this machine. Cancel on the returned object stops it, and no further pin fires. */
	UFUNCTION(BlueprintCallable, Category = "Atelico",
		meta = (BlueprintInternalUseOnly = "true", WorldContext = "WorldContextObject", DisplayName = "Atelico Chat"))
	static UAtelicoChatAsyncAction* AtelicoChat(UObject* WorldContextObject, const FAtelicoRequest& Request);

	virtual void Activate() override;
	virtual void Cancel() override;

private:
	class UAtelicoSubsystem* Subsystem() const;
	void Finish();

	// Weak: the node must not keep a level alive that the game has left.
	TWeakObjectPtr<UObject> WorldContext;

	FAtelicoRequest Request;
	int64 Chat = 0;
};
