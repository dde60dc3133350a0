#include "AtelicoConvert.h"

#include "AtelicoSettings.h"
#include "Misc/Paths.h"

namespace
{
	EAtelicoCode FromCode(atelico::Code Code)
	{
		switch (Code)
		{
		case atelico::Code::ok: return EAtelicoCode::Ok;
		case atelico::Code::invalid_handle: return EAtelicoCode::InvalidHandle;
		case atelico::Code::invalid_argument: return EAtelicoCode::InvalidArgument;
		case atelico::Code::init_failed: return EAtelicoCode::InitFailed;
		case atelico::Code::model_not_found: return EAtelicoCode::ModelNotFound;
		case atelico::Code::inference_failed: return EAtelicoCode::InferenceFailed;
		case atelico::Code::invalid_json: return EAtelicoCode::InvalidJson;
		case atelico::Code::context_overflow: return EAtelicoCode::ContextOverflow;
		case atelico::Code::cancelled: return EAtelicoCode::Cancelled;
		case atelico::Code::busy: return EAtelicoCode::Busy;
		case atelico::Code::shutting_down: return EAtelicoCode::ShuttingDown;
		case atelico::Code::done:
		case atelico::Code::empty:
		case atelico::Code::internal: break;
		}
		return EAtelicoCode::Internal;
	}

	const char* FromRole(EAtelicoRole Role)
	{
		switch (Role)
		{
		case EAtelicoRole::System: return "system";
		case EAtelicoRole::Assistant: return "assistant";
		case EAtelicoRole::User: break;
		}
		return "user";
	}
}

std::string AtelicoConvert::ToUtf8(const FString& Text)
{
	const FTCHARToUTF8 Utf8(*Text, Text.Len());
	return std::string(reinterpret_cast<const char*>(Utf8.Get()), static_cast<std::size_t>(Utf8.Length()));
}

FString AtelicoConvert::FromUtf8(std::string_view Text)
{
	const FUTF8ToTCHAR Wide(Text.data(), static_cast<int32>(Text.size()));
	return FString(FStringView(Wide.Get(), Wide.Length()));
}

std::string AtelicoConvert::ToConfig(const UAtelicoSettings& Settings)
{
	atelico::Config Config;
	const FString Folder = FPaths::Combine(FPaths::ProjectContentDir(), Settings.ModelFolder);
	Config.model_folder(ToUtf8(FPaths::ConvertRelativePathToFull(Folder)));
	Config.n_ctx(Settings.ContextTokens).n_threads(Settings.Threads).n_gpu_layers(Settings.GpuLayers);
	return Config.json();
}

std::string AtelicoConvert::ToRequest(const FAtelicoRequest& Request, const FString& DefaultModel)
{
	atelico::Request Json(ToUtf8(Request.Model.IsEmpty() ? DefaultModel : Request.Model));
	for (const FAtelicoMessage& Message : Request.Messages)
	{
		Json.message(FromRole(Message.Role), ToUtf8(Message.Content));
	}
	Json.max_tokens(Request.MaxTokens);
	if (Request.Temperature >= 0.0f)
	{
		Json.temperature(Request.Temperature);
	}
	if (Request.Seed >= 0)
	{
		Json.seed(Request.Seed);
	}
	if (!Request.Proposer.IsEmpty())
	{
		Json.speculative(ToUtf8(Request.Proposer), Request.DraftTokens, ToUtf8(Request.Acceptance));
	}
	if (!Request.JsonSchema.IsEmpty())
	{
		Json.json_schema("answer", ToUtf8(Request.JsonSchema));
	}
	if (Request.Stop.Num() > 0)
	{
		std::string Texts;
		for (const FString& Text : Request.Stop)
		{
			Texts += Texts.empty() ? '[' : ',';
			atelico::json::quote(Texts, ToUtf8(Text));
		}
		Json.field("stop", Texts + "]");
	}
	for (const auto& Field : Request.ExtraFields)
	{
		Json.field(ToUtf8(Field.Key), ToUtf8(Field.Value));
	}
	return Json.json();
}

FAtelicoResponse AtelicoConvert::FromAnswer(const atelico::Answer& Answer)
{
	FAtelicoResponse Response;
	Response.Text = FromUtf8(Answer.text());
	Response.Reasoning = FromUtf8(Answer.choices.front().reasoning);
	Response.FinishReason = FromUtf8(Answer.finish_reason());
	Response.PromptTokens = static_cast<int32>(Answer.usage.prompt_tokens);
	Response.CompletionTokens = static_cast<int32>(Answer.usage.completion_tokens);
	Response.TokensPerSecond = static_cast<float>(Answer.timings.tokens_per_second);
	Response.FirstTokenMs = static_cast<float>(Answer.timings.first_token_ms);
	Response.bSpeculated = Answer.speculation.active;
	Response.SpeculationReason = FromUtf8(Answer.speculation.reason);
	Response.ProposedTokens = static_cast<int32>(Answer.speculation.proposed);
	Response.AcceptedTokens = static_cast<int32>(Answer.speculation.accepted);
	return Response;
}

FAtelicoError AtelicoConvert::FromError(const atelico::Error& Error)
{
	FAtelicoError Result;
	Result.Code = FromCode(Error.code);
	Result.Message = FromUtf8(Error.message);
	Result.Param = FromUtf8(Error.param);
	return Result;
}
