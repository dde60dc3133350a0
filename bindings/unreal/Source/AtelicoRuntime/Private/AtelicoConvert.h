// Between Unreal's types and atelico.hpp's: text, requests, answers, errors. No state.
#pragma once

#include "CoreMinimal.h"
#include "AtelicoTypes.h"

#include "atelico.hpp"

class UAtelicoSettings;

namespace AtelicoConvert
{
	/** Always UTF-8, whatever the platform's narrow characters are. */
	std::string ToUtf8(const FString& Text);
	FString FromUtf8(std::string_view Text);

	/** The configuration's JSON. */
	std::string ToConfig(const UAtelicoSettings& Settings);
	/** The request's JSON. */
	std::string ToRequest(const FAtelicoRequest& Request, const FString& DefaultModel);

	FAtelicoResponse FromAnswer(const atelico::Answer& Answer);
	FAtelicoError FromError(const atelico::Error& Error);
}
