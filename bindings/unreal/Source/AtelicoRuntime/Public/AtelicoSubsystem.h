// The engine of one game instance: owns the models and every running request, and delivers their events on the game
// thread, also while the game is paused. Lives from game start to game end; in the editor, from Play to Stop.
#pragma once

#include "CoreMinimal.h"
#include "Containers/Ticker.h"
#include "Subsystems/GameInstanceSubsystem.h"
#include "AtelicoTypes.h"
#include "AtelicoSubsystem.generated.h"

/**
 * What a request calls on the game thread. Each may be left empty. Exactly one of OnCompleted and OnFailed is called, in a
 * later frame than the request, unless Owner is gone first: then nothing is called and the request is cancelled.
 */
struct FAtelicoChatHandlers
{
	/** Only checked, never called: the object that the functions below use. */
	TWeakObjectPtr<UObject> Owner;
	/** New text, as it is written. */
	TFunction<void(const FString& Delta)> OnDelta;
	TFunction<void(const FAtelicoResponse& Response)> OnCompleted;
	TFunction<void(const FAtelicoError& Error)> OnFailed;
};

UCLASS()
class ATELICORUNTIME_API UAtelicoSubsystem : public UGameInstanceSubsystem
{
	GENERATED_BODY()

public:
	virtual void Initialize(FSubsystemCollectionBase& Collection) override;
	virtual void Deinitialize() override;

	/**
	 * Start a request; returns at once. Handlers.Owner must be set.
	 * @return the request's number, greater than 0, for CancelChat. Whatever is wrong comes through OnFailed.
	 */
	int64 BeginChat(const FAtelicoRequest& Request, const FAtelicoChatHandlers& Handlers);

	/** The same for a request written as JSON (UTF-8 once converted); see docs/requests.md. */
	int64 BeginChatJson(const FString& RequestJson, const FAtelicoChatHandlers& Handlers);

	/** Stop a request soon. Its text so far comes through OnCompleted, with FinishReason "cancelled". */
	UFUNCTION(BlueprintCallable, Category = "Atelico")
	void CancelChat(int64 Chat);

	/** Stop a request soon, and call none of its handlers any more. */
	void AbandonChat(int64 Chat);

	/** Start loading a model, so that the first answer need not wait. Empty: the default model. */
	UFUNCTION(BlueprintCallable, Category = "Atelico")
	void LoadModel(const FString& Model);

	/** How far a model is. Progress: the loaded share, 0 to 1. Error: why it failed, if it did. */
	UFUNCTION(BlueprintCallable, Category = "Atelico")
	EAtelicoModelState GetModelState(const FString& Model, float& Progress, FAtelicoError& Error);

	/** How many requests run. */
	UFUNCTION(BlueprintPure, Category = "Atelico")
	int32 NumRunning() const;

private:
	bool Tick(float DeltaSeconds);

	// Keeps atelico.hpp out of the game's includes.
	TSharedPtr<struct FAtelicoRunning> Running;
	FTSTicker::FDelegateHandle TickerHandle;
};
