#include "AtelicoChatComponent.h"

#include "AtelicoSubsystem.h"
#include "Engine/GameInstance.h"
#include "Engine/World.h"

UAtelicoSubsystem* UAtelicoChatComponent::Subsystem() const
{
	const UWorld* World = GetWorld();
	UGameInstance* GameInstance = World != nullptr ? World->GetGameInstance() : nullptr;
	return GameInstance != nullptr ? GameInstance->GetSubsystem<UAtelicoSubsystem>() : nullptr;
}

bool UAtelicoChatComponent::Ask(const FString& Text)
{
	UAtelicoSubsystem* Atelico = Subsystem();
	if (IsAnswering() || Atelico == nullptr)
	{
		return false;
	}
	Remember(EAtelicoRole::User, Text);
	FAtelicoRequest Request = Options;
	Request.Messages.Reset();
	if (!SystemPrompt.IsEmpty())
	{
		FAtelicoMessage System;
		System.Role = EAtelicoRole::System;
		System.Content = SystemPrompt;
		Request.Messages.Add(System);
	}
	Request.Messages.Append(History);
	TextSoFar.Reset();

	FAtelicoChatHandlers Handlers;
	Handlers.Owner = this;
	Handlers.OnDelta = [this](const FString& Delta)
	{
		TextSoFar += Delta;
		OnDelta.Broadcast(Delta, TextSoFar);
	};
	// Chat is 0 before the broadcast, so that what listens may ask again.
	Handlers.OnCompleted = [this](const FAtelicoResponse& Response)
	{
		Chat = 0;
		Remember(EAtelicoRole::Assistant, Response.Text);
		OnCompleted.Broadcast(Response);
	};
	Handlers.OnFailed = [this](const FAtelicoError& Error)
	{
		Chat = 0;
		if (History.Num() > 0 && History.Last().Role == EAtelicoRole::User)
		{
			History.RemoveAt(History.Num() - 1, 1);
		}
		OnFailed.Broadcast(Error);
	};
	Chat = Atelico->BeginChat(Request, Handlers);
	return IsAnswering();
}

void UAtelicoChatComponent::Cancel()
{
	if (UAtelicoSubsystem* Atelico = Subsystem())
	{
		Atelico->CancelChat(Chat);
	}
}

void UAtelicoChatComponent::EndPlay(const EEndPlayReason::Type Reason)
{
	if (UAtelicoSubsystem* Atelico = Subsystem())
	{
		Atelico->AbandonChat(Chat);
	}
	Chat = 0;
	Super::EndPlay(Reason);
}

void UAtelicoChatComponent::Remember(EAtelicoRole Role, const FString& Content)
{
	FAtelicoMessage Message;
	Message.Role = Role;
	Message.Content = Content;
	History.Add(Message);
	if (MaxHistory > 0 && History.Num() > MaxHistory)
	{
		History.RemoveAt(0, History.Num() - MaxHistory);
	}
}
