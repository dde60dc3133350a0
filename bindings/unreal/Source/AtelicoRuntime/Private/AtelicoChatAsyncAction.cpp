#include "AtelicoChatAsyncAction.h"

#include "AtelicoSubsystem.h"
#include "Engine/Engine.h"
#include "Engine/GameInstance.h"
#include "Engine/World.h"

UAtelicoChatAsyncAction* UAtelicoChatAsyncAction::AtelicoChat(UObject* WorldContextObject, const FAtelicoRequest& Request)
{
	UAtelicoChatAsyncAction* Action = NewObject<UAtelicoChatAsyncAction>();
	Action->WorldContext = WorldContextObject;
	Action->Request = Request;
	Action->RegisterWithGameInstance(WorldContextObject);
	return Action;
}

UAtelicoSubsystem* UAtelicoChatAsyncAction::Subsystem() const
{
	const UWorld* World = GEngine->GetWorldFromContextObject(WorldContext.Get(), EGetWorldErrorMode::LogAndReturnNull);
	UGameInstance* GameInstance = World != nullptr ? World->GetGameInstance() : nullptr;
	return GameInstance != nullptr ? GameInstance->GetSubsystem<UAtelicoSubsystem>() : nullptr;
}

void UAtelicoChatAsyncAction::Activate()
{
	FAtelicoChatHandlers Handlers;
	Handlers.Owner = this;
	Handlers.OnDelta = [this](const FString& Delta)
	{
		if (ShouldBroadcastDelegates())
		{
			OnDelta.Broadcast(Delta, FAtelicoResponse(), FAtelicoError());
		}
	};
	Handlers.OnCompleted = [this](const FAtelicoResponse& Response)
	{
		if (ShouldBroadcastDelegates())
		{
			OnCompleted.Broadcast(FString(), Response, FAtelicoError());
		}
		Finish();
	};
	Handlers.OnFailed = [this](const FAtelicoError& Error)
	{
		if (ShouldBroadcastDelegates())
		{
			OnFailed.Broadcast(FString(), FAtelicoResponse(), Error);
		}
		Finish();
	};
	UAtelicoSubsystem* Atelico = Subsystem();
	Chat = Atelico != nullptr ? Atelico->BeginChat(Request, Handlers) : 0;
	if (Chat == 0)
	{
		FAtelicoError Error;
		Error.Code = EAtelicoCode::ShuttingDown;
		Error.Message = TEXT("There is no game instance to ask in. Call this node from an object of a running game.");
		Handlers.OnFailed(Error);
	}
}

void UAtelicoChatAsyncAction::Cancel()
{
	if (UAtelicoSubsystem* Atelico = Subsystem())
	{
		Atelico->AbandonChat(Chat);
	}
	Super::Cancel(); // from here on, ShouldBroadcastDelegates is false
}

void UAtelicoChatAsyncAction::Finish()
{
	Chat = 0;
	SetReadyToDestroy();
}
