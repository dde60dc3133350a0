// The page "atelico" of the project settings; stored in DefaultGame.ini.
#pragma once

#include "CoreMinimal.h"
#include "Engine/DeveloperSettings.h"
#include "AtelicoSettings.generated.h"

UCLASS(Config = Game, DefaultConfig, meta = (DisplayName = "atelico"))
class ATELICORUNTIME_API UAtelicoSettings : public UDeveloperSettings
{
	GENERATED_BODY()

public:
	/** The folder of the .gguf files, below Content. Add it to "Additional Non-Asset Directories To Copy". */
	UPROPERTY(Config, EditAnywhere, Category = "Models")
	FString ModelFolder = TEXT("Models");

	/** The model of requests that name none: the file's name without .gguf. */
	UPROPERTY(Config, EditAnywhere, Category = "Models")
	FString DefaultModel;

	/** Models to load when the game starts, so that the first answer need not wait. */
	UPROPERTY(Config, EditAnywhere, Category = "Models")
	TArray<FString> PreloadModels;

	/** Tokens of context per request. 0: the model's own, at most 4,096. */
	UPROPERTY(Config, EditAnywhere, Category = "Performance", meta = (ClampMin = "0"))
	int32 ContextTokens = 0;

	/** Threads that decode. 0: the physical cores but one. */
	UPROPERTY(Config, EditAnywhere, Category = "Performance", meta = (ClampMin = "0"))
	int32 Threads = 0;

	/** Layers on the GPU, if the bundle supports one. -1: all. */
	UPROPERTY(Config, EditAnywhere, Category = "Performance", meta = (ClampMin = "-1"))
	int32 GpuLayers = -1;

	virtual FName GetCategoryName() const override;
};
