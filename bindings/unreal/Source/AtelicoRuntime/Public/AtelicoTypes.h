// What Blueprints and C++ of the game see of a request, its answer and its error: plain data, no behaviour.
#pragma once

#include "CoreMinimal.h"
#include "AtelicoTypes.generated.h"

/** Why something failed; the results of atelico.h. */
UENUM(BlueprintType)
enum class EAtelicoCode : uint8
{
	Ok,
	/** The engine is closed. */
	InvalidHandle,
	/** A request field is missing, has a wrong type or is out of range: see Param. */
	InvalidArgument,
	/** The library, its configuration or the model could not be loaded. */
	InitFailed,
	/** No model has this name. */
	ModelNotFound,
	/** The model failed while it ran. */
	InferenceFailed,
	/** The request is not JSON, too large or nested too deeply. */
	InvalidJson,
	/** The messages do not fit the model's context. */
	ContextOverflow,
	/** Cancelled before there was an answer. */
	Cancelled,
	/** Too many requests at once. */
	Busy,
	/** The game ended, or the level's game instance did, while the request ran. */
	ShuttingDown,
	/** A defect of atelico, or out of memory. */
	Internal
};

/** How far a model is. */
UENUM(BlueprintType)
enum class EAtelicoModelState : uint8
{
	NotLoaded,
	Loading,
	Ready,
	Failed
};

/** Who says a message. */
UENUM(BlueprintType)
enum class EAtelicoRole : uint8
{
	System,
	User,
	Assistant
};

/** One message of a dialogue. */
USTRUCT(BlueprintType)
struct ATELICORUNTIME_API FAtelicoMessage
{
	GENERATED_BODY()

	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico")
	EAtelicoRole Role = EAtelicoRole::User;

	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico", meta = (MultiLine = true))
	FString Content;
};

/** A chat request. What is not here goes into ExtraFields; docs/requests.md lists every field. */
USTRUCT(BlueprintType)
struct ATELICORUNTIME_API FAtelicoRequest
{
	GENERATED_BODY()

	/** A model's name, alias or path. Empty: the default model of the project settings. */
	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico")
	FString Model;

	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico")
	TArray<FAtelicoMessage> Messages;

	/** Tokens of the answer at most. */
	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico", meta = (ClampMin = "1"))
	int32 MaxTokens = 256;

	/** 0 always takes the most likely token. Below 0: the model's own. */
	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico", meta = (ClampMax = "2.0"))
	float Temperature = -1.0f;

	/** Who guesses tokens ahead: "auto", "prompt_lookup", "lookahead". Empty: nobody. */
	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico")
	FString Proposer = TEXT("auto");

	/** Tokens guessed per round at most. 0: the default. */
	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico", AdvancedDisplay)
	int32 DraftTokens = 0;

	/** "exact": guesses never change the text. "stochastic": they may, and are right more often. */
	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico", AdvancedDisplay)
	FString Acceptance = TEXT("exact");

	/** A JSON schema that the answer follows. Empty: free text. */
	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico", meta = (MultiLine = true))
	FString JsonSchema;

	/** The answer ends before any of these. */
	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico")
	TArray<FString> Stop;

	/** The same seed gives the same text. Below 0: another text each time. */
	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico", AdvancedDisplay)
	int64 Seed = -1;

	/** More request fields: name -> value as JSON. They win over the fields above. */
	UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Atelico", AdvancedDisplay)
	TMap<FString, FString> ExtraFields;
};

/** A finished answer. */
USTRUCT(BlueprintType)
struct ATELICORUNTIME_API FAtelicoResponse
{
	GENERATED_BODY()

	UPROPERTY(BlueprintReadOnly, Category = "Atelico")
	FString Text;

	/** The thoughts of a thinking model. Not for the player's eyes. */
	UPROPERTY(BlueprintReadOnly, Category = "Atelico")
	FString Reasoning;

	/** "stop", "length" (cut by MaxTokens or the context) or "cancelled". */
	UPROPERTY(BlueprintReadOnly, Category = "Atelico")
	FString FinishReason;

	UPROPERTY(BlueprintReadOnly, Category = "Atelico")
	int32 PromptTokens = 0;

	UPROPERTY(BlueprintReadOnly, Category = "Atelico")
	int32 CompletionTokens = 0;

	UPROPERTY(BlueprintReadOnly, Category = "Atelico")
	float TokensPerSecond = 0.0f;

	/** Milliseconds from the request to its first token. */
	UPROPERTY(BlueprintReadOnly, Category = "Atelico")
	float FirstTokenMs = 0.0f;

	/** Whether tokens could be guessed ahead; if not, SpeculationReason says why. */
	UPROPERTY(BlueprintReadOnly, Category = "Atelico")
	bool bSpeculated = false;

	UPROPERTY(BlueprintReadOnly, Category = "Atelico")
	FString SpeculationReason;

	/** Guessed tokens, and those that were right. */
	UPROPERTY(BlueprintReadOnly, Category = "Atelico")
	int32 ProposedTokens = 0;

	UPROPERTY(BlueprintReadOnly, Category = "Atelico")
	int32 AcceptedTokens = 0;
};

/** What went wrong. */
USTRUCT(BlueprintType)
struct ATELICORUNTIME_API FAtelicoError
{
	GENERATED_BODY()

	UPROPERTY(BlueprintReadOnly, Category = "Atelico")
	EAtelicoCode Code = EAtelicoCode::Ok;

	/** One or two sentences: what was wrong and what to do. */
	UPROPERTY(BlueprintReadOnly, Category = "Atelico")
	FString Message;

	/** The request's field, such as "messages[0].role". May be empty. */
	UPROPERTY(BlueprintReadOnly, Category = "Atelico")
	FString Param;
};
