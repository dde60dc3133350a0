#include "AtelicoSubsystem.h"

#include "AtelicoConvert.h"
#include "AtelicoSettings.h"

DEFINE_LOG_CATEGORY_STATIC(LogAtelico, Log, All);

// One request: a job, or the error that kept it from becoming one, which is delivered in the next tick like any other.
struct FAtelicoRunningChat
{
	std::optional<atelico::Job> Job;
	std::optional<atelico::Error> Refused;
	FAtelicoChatHandlers Handlers;
	bool bAbandoned = false;

	bool IsWanted() const
	{
		return !bAbandoned && Handlers.Owner.IsValid();
	}
};

struct FAtelicoRunning
{
	std::optional<atelico::Engine> Engine;
	std::optional<atelico::Error> Failed; // why there is no engine
	TMap<int64, TSharedPtr<FAtelicoRunningChat>> Chats;
	int64 LastChat = 0;

	int64 Begin(const std::string& RequestJson, const FAtelicoChatHandlers& Handlers)
	{
		const TSharedPtr<FAtelicoRunningChat> Chat = MakeShared<FAtelicoRunningChat>();
		Chat->Handlers = Handlers;
		if (Engine)
		{
			atelico::Result<atelico::Job> Job = Engine->begin_json(RequestJson);
			if (Job)
			{
				Chat->Job.emplace(std::move(*Job));
			}
			else
			{
				Chat->Refused = Job.error();
			}
		}
		else
		{
			Chat->Refused = Failed;
		}
		Chats.Add(++LastChat, Chat);
		return LastChat;
	}

	// Deliver what is new. A handler may begin, cancel and abandon chats, destroy its owner, or end the whole subsystem:
	// so whether the chat is still wanted is asked before each. False: it is over.
	static bool Deliver(FAtelicoRunningChat& Chat)
	{
		const FAtelicoChatHandlers& Handlers = Chat.Handlers;
		if (Chat.Refused)
		{
			Fail(Chat, *Chat.Refused);
			return false;
		}
		while (Chat.IsWanted())
		{
			const std::optional<atelico::Event> Event = Chat.Job->poll();
			if (!Event)
			{
				return true;
			}
			if (const auto* Answer = std::get_if<atelico::Answer>(&*Event))
			{
				if (Handlers.OnCompleted)
				{
					Handlers.OnCompleted(AtelicoConvert::FromAnswer(*Answer));
				}
				return false;
			}
			if (const auto* Error = std::get_if<atelico::Error>(&*Event))
			{
				Fail(Chat, *Error);
				return false;
			}
			const auto& Delta = std::get<atelico::Delta>(*Event);
			if (Handlers.OnDelta && !Delta.text.empty())
			{
				Handlers.OnDelta(AtelicoConvert::FromUtf8(Delta.text));
			}
		}
		return false; // dropping the job cancels it
	}

	static void Fail(const FAtelicoRunningChat& Chat, const atelico::Error& Error)
	{
		if (Chat.IsWanted() && Chat.Handlers.OnFailed)
		{
			Chat.Handlers.OnFailed(AtelicoConvert::FromError(Error));
		}
	}
};

void UAtelicoSubsystem::Initialize(FSubsystemCollectionBase& Collection)
{
	Super::Initialize(Collection);
	const UAtelicoSettings* Settings = GetDefault<UAtelicoSettings>();
	Running = MakeShared<FAtelicoRunning>();
	atelico::Result<atelico::Engine> Engine = atelico::Engine::create(AtelicoConvert::ToConfig(*Settings));
	if (Engine)
	{
		Running->Engine.emplace(std::move(*Engine));
	}
	else
	{
		Running->Failed = Engine.error();
		UE_LOG(LogAtelico, Error, TEXT("%s"), *AtelicoConvert::FromUtf8(Engine.error().message));
	}
	for (const FString& Model : Settings->PreloadModels)
	{
		LoadModel(Model);
	}
	TickerHandle = FTSTicker::GetCoreTicker().AddTicker(FTickerDelegate::CreateUObject(this, &UAtelicoSubsystem::Tick));
}

void UAtelicoSubsystem::Deinitialize()
{
	FTSTicker::GetCoreTicker().RemoveTicker(TickerHandle);
	// No handler is called any more: their worlds are being torn down. Returns at once, whatever loads or generates.
	if (Running)
	{
		for (const auto& Chat : Running->Chats)
		{
			Chat.Value->bAbandoned = true;
		}
		Running.Reset();
	}
	Super::Deinitialize();
}

int64 UAtelicoSubsystem::BeginChat(const FAtelicoRequest& Request, const FAtelicoChatHandlers& Handlers)
{
	return Running ? Running->Begin(AtelicoConvert::ToRequest(Request, GetDefault<UAtelicoSettings>()->DefaultModel), Handlers) : 0;
}

int64 UAtelicoSubsystem::BeginChatJson(const FString& RequestJson, const FAtelicoChatHandlers& Handlers)
{
	return Running ? Running->Begin(AtelicoConvert::ToUtf8(RequestJson), Handlers) : 0;
}

void UAtelicoSubsystem::CancelChat(int64 Chat)
{
	const TSharedPtr<FAtelicoRunningChat>* Found = Running ? Running->Chats.Find(Chat) : nullptr;
	if (Found != nullptr && (*Found)->Job)
	{
		(*Found)->Job->cancel();
	}
}

void UAtelicoSubsystem::AbandonChat(int64 Chat)
{
	const TSharedPtr<FAtelicoRunningChat>* Found = Running ? Running->Chats.Find(Chat) : nullptr;
	if (Found != nullptr)
	{
		(*Found)->bAbandoned = true;
	}
	CancelChat(Chat);
}

void UAtelicoSubsystem::LoadModel(const FString& Model)
{
	const FString& Name = Model.IsEmpty() ? GetDefault<UAtelicoSettings>()->DefaultModel : Model;
	if (Running && Running->Engine)
	{
		if (const atelico::Status Status = Running->Engine->load(AtelicoConvert::ToUtf8(Name)); !Status)
		{
			UE_LOG(LogAtelico, Error, TEXT("%s"), *AtelicoConvert::FromUtf8(Status.error().message));
		}
	}
}

EAtelicoModelState UAtelicoSubsystem::GetModelState(const FString& Model, float& Progress, FAtelicoError& Error)
{
	Progress = 0.0f;
	Error = FAtelicoError();
	if (!Running || !Running->Engine)
	{
		const bool bWhy = Running && Running->Failed;
		Error = AtelicoConvert::FromError(bWhy ? *Running->Failed : atelico::Error{atelico::Code::shutting_down, {}, {}, {}});
		return EAtelicoModelState::Failed;
	}
	const FString& Name = Model.IsEmpty() ? GetDefault<UAtelicoSettings>()->DefaultModel : Model;
	const atelico::ModelState State = Running->Engine->state(AtelicoConvert::ToUtf8(Name));
	Progress = State.progress;
	switch (State.loading)
	{
	case atelico::Loading::not_loaded: return EAtelicoModelState::NotLoaded;
	case atelico::Loading::loading: return EAtelicoModelState::Loading;
	case atelico::Loading::ready: return EAtelicoModelState::Ready;
	case atelico::Loading::failed: break;
	}
	Error = AtelicoConvert::FromError(State.error);
	return EAtelicoModelState::Failed;
}

int32 UAtelicoSubsystem::NumRunning() const
{
	return Running ? Running->Chats.Num() : 0;
}

bool UAtelicoSubsystem::Tick(float)
{
	const TSharedPtr<FAtelicoRunning> Current = Running; // survives a handler that ends the subsystem
	TArray<int64> Ids;
	Current->Chats.GetKeys(Ids);
	for (const int64 Id : Ids)
	{
		const TSharedPtr<FAtelicoRunningChat>* Found = Current->Chats.Find(Id);
		if (Found == nullptr)
		{
			continue;
		}
		const TSharedPtr<FAtelicoRunningChat> Chat = *Found;
		if (!FAtelicoRunning::Deliver(*Chat))
		{
			Current->Chats.Remove(Id);
		}
	}
	return true;
}
