// A character that talks: keeps a dialogue and asks for its next line. One line at a time.
#pragma once

#include "CoreMinimal.h"
#include "Components/ActorComponent.h"
#include "AtelicoTypes.h"
#include "AtelicoChatComponent.generated.h"

DECLARE_DYNAMIC_MULTICAST_DELEGATE_TwoParams(FAtelicoChatDelta, const FString&, Delta, const FString&, TextSoFar);
DECLARE_DYNAMIC_MULTICAST_DELEGATE_OneParam(FAtelicoChatCompleted, const FAtelicoResponse&, Response);
DECLARE_DYNAMIC_MULTICAST_DELEGATE_OneParam(FAtelicoChatFailed, const FAtelicoError&, Error);

UCLASS(ClassGroup = (Atelico), meta = (BlueprintSpawnableComponent))
class ATELICORUNTIME_API UAtelicoChatComponent : public UActorComponent
{
	GENERATED_BODY()

public:
	/** Who the character is and how it talks. */
	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico", meta = (MultiLine = true))
	FString SystemPrompt;

	/** Everything of a request but its messages. */
	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico")
	FAtelicoRequest Options;

	/** The dialogue so far, without the system prompt. Yours to save, load and shorten. */
	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico")
	TArray<FAtelicoMessage> History;

	/** Forget the oldest messages beyond so many. 0: never. */
	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico", meta = (ClampMin = "0"))
	int32 MaxHistory = 20;

	/** New text, as it is written. TextSoFar: the whole line until now. */
	UPROPERTY(BlueprintAssignable, Category = "Atelico")
	FAtelicoChatDelta OnDelta;

	/** The line is finished and in History. */
	UPROPERTY(BlueprintAssignable, Category = "Atelico")
	FAtelicoChatCompleted OnCompleted;

	/** What was asked is taken out of History again. */
	UPROPERTY(BlueprintAssignable, Category = "Atelico")
	FAtelicoChatFailed OnFailed;

	/** Say something to the character. False, and nothing happens, while it still answers. */
	UFUNCTION(BlueprintCallable, Category = "Atelico")
	bool Ask(const FString& Text);

	/** Let the character stop. What it has said so far comes through OnCompleted. */
	UFUNCTION(BlueprintCallable, Category = "Atelico")
	void Cancel();

	UFUNCTION(BlueprintPure, Category = "Atelico")
	bool IsAnswering() const { return Chat != 0; }

	virtual void EndPlay(const EEndPlayReason::Type Reason) override;

private:
	class UAtelicoSubsystem* Subsystem() const;
	void Remember(EAtelicoRole Role, const FString& Content);

	int64 Chat = 0;
	FString TextSoFar;
};
