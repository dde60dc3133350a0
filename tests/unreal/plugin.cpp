// The plugin's logic against the real library and SmolLM2, with stand-ins for Unreal. Not a test of Unreal.

#include "AtelicoChatAsyncAction.h"
#include "AtelicoChatComponent.h"
#include "AtelicoSettings.h"
#include "AtelicoSubsystem.h"
#include "Engine/Engine.h"
#include "Engine/GameInstance.h"
#include "Modules/ModuleManager.h"
#include "statements.hpp"

#include <chrono>
#include <thread>

IModuleInterface *standin_module_AtelicoRuntime();

using statements::holds;

// A running game: one world, one game instance, its subsystem.
struct Game {
    UWorld world;
    UGameInstance instance;
    UAtelicoSubsystem subsystem;

    Game() {
        world.standin_game_instance = &instance;
        instance.standin_subsystem = &subsystem;
        FSubsystemCollectionBase collection;
        subsystem.Initialize(collection);
    }
    ~Game() { subsystem.Deinitialize(); }

    static void frame() {
        FTSTicker::GetCoreTicker().standin_tick();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    template <typename Condition> bool until(Condition condition) {
        for (int n = 0; n < 20000 && !condition(); n++) frame();
        return condition();
    }
};

static FAtelicoRequest question(const TCHAR *content, int32 max_tokens) {
    FAtelicoRequest request;
    FAtelicoMessage message;
    message.Content = FString(content);
    request.Messages.Add(message);
    request.MaxTokens = max_tokens;
    request.Temperature = 0.0f;
    return request;
}

// Counts what handlers were called with.
struct Heard {
    UObject owner;
    FString text;
    FAtelicoResponse response;
    FAtelicoError error;
    int deltas = 0, completed = 0, failed = 0;

    FAtelicoChatHandlers handlers() {
        FAtelicoChatHandlers all;
        all.Owner = &owner;
        all.OnDelta = [this](const FString &delta) { text += delta, deltas++; };
        all.OnCompleted = [this](const FAtelicoResponse &value) { response = value, completed++; };
        all.OnFailed = [this](const FAtelicoError &value) { error = value, failed++; };
        return all;
    }
    bool over() const { return completed + failed > 0; }
};

static void subsystem(Game &game) {
    Heard plain;
    const int64 id = game.subsystem.BeginChat(question(u"Hello", 12), plain.handlers());
    holds(id > 0 && plain.deltas + plain.completed + plain.failed == 0, "a request calls nothing before the next frame");
    holds(game.until([&] { return plain.over(); }) && plain.completed == 1 && plain.failed == 0, "a request completes once");
    holds(plain.deltas > 0 && plain.text == plain.response.Text, "joined deltas are the text");
    holds(plain.response.CompletionTokens > 0 && plain.response.PromptTokens > 0, "tokens are counted");
    holds(game.subsystem.NumRunning() == 0, "a finished request is forgotten");

    FAtelicoRequest echo = question(u"Answer as JSON.", 60);
    echo.JsonSchema = FString(u"{\"const\": \"Grüße, 世界 🌊\"}");
    Heard utf8;
    game.subsystem.BeginChat(echo, utf8.handlers());
    game.until([&] { return utf8.over(); });
    holds(utf8.response.Text == FString(u"\"Grüße, 世界 🌊\""), "text goes in and comes out whole, surrogate pairs too");

    FAtelicoRequest extra = question(u"Hi", 4);
    extra.ExtraFields.Add(FString(u"temperature"), FString(u"9"));
    Heard wrong;
    game.subsystem.BeginChat(extra, wrong.handlers());
    game.until([&] { return wrong.over(); });
    holds(wrong.failed == 1 && wrong.error.Code == EAtelicoCode::InvalidArgument && wrong.error.Param == FString(u"temperature"),
          "a wrong field fails and is named");

    Heard json;
    game.subsystem.BeginChatJson(FString(u"{"), json.handlers());
    holds(json.failed == 0, "not even a refused request fails inside its own call");
    game.until([&] { return json.over(); });
    holds(json.failed == 1 && json.error.Code == EAtelicoCode::InvalidJson, "a request that is not JSON fails");

    Heard cancelled;
    game.subsystem.CancelChat(game.subsystem.BeginChat(question(u"Write a long story.", 400), cancelled.handlers()));
    game.until([&] { return cancelled.over(); });
    holds(cancelled.response.FinishReason == FString(u"cancelled") || cancelled.error.Code == EAtelicoCode::Cancelled,
          "a cancelled request ends as cancelled");
    game.subsystem.CancelChat(12345);

    auto gone = std::make_unique<Heard>();
    int called = 0;
    FAtelicoChatHandlers handlers = gone->handlers();
    handlers.OnDelta = [&](const FString &) { called++; };
    handlers.OnCompleted = [&](const FAtelicoResponse &) { called++; };
    game.subsystem.BeginChat(question(u"Write a long story.", 400), handlers);
    gone.reset();
    holds(game.until([&] { return game.subsystem.NumRunning() == 0; }) && called == 0, "an owner that is gone is never called");

    Heard abandoned;
    int64 own = 0;
    FAtelicoChatHandlers once = abandoned.handlers();
    once.OnDelta = [&](const FString &) { abandoned.deltas++, game.subsystem.AbandonChat(own); };
    own = game.subsystem.BeginChat(question(u"Write a long story.", 400), once);
    game.until([&] { return game.subsystem.NumRunning() == 0; });
    holds(abandoned.deltas == 1 && !abandoned.over(), "a handler may abandon its own request");

    float progress = 0;
    FAtelicoError error;
    holds(game.subsystem.GetModelState(FString(), progress, error) == EAtelicoModelState::Ready && progress >= 1.0f,
          "the default model is ready");
    game.until([&] { return game.subsystem.GetModelState(FString(u"none"), progress, error) == EAtelicoModelState::Failed; });
    holds(error.Code == EAtelicoCode::ModelNotFound && !error.Message.IsEmpty(), "an unknown model's state says so");
}

static void component(Game &game) {
    auto npc = std::make_unique<UAtelicoChatComponent>();
    npc->standin_world = &game.world;
    npc->SystemPrompt = FString(u"You are the harbour master.");
    npc->Options = question(u"", 12);
    npc->MaxHistory = 4;
    FString heard, so_far;
    int completed = 0, failed = 0;
    npc->OnDelta.standin_add([&](const FString &delta, const FString &text) { heard += delta, so_far = text; });
    npc->OnCompleted.standin_add([&](const FAtelicoResponse &) { completed++; });
    npc->OnFailed.standin_add([&](const FAtelicoError &) { failed++; });
    holds(npc->Ask(FString(u"May I moor here?")), "a character takes a question");
    holds(!npc->Ask(FString(u"Well?")) && npc->History.Num() == 1, "a second question while it answers changes nothing");
    game.until([&] { return completed + failed > 0; });
    holds(completed == 1 && npc->History.Num() == 2 && npc->History[1].Content == heard, "its line is in the history");
    holds(so_far == heard, "the text so far ends as the whole line");
    for (int n = 0; n < 3; n++) {
        npc->Ask(FString(u"And tomorrow?"));
        game.until([&] { return !npc->IsAnswering(); });
    }
    holds(npc->History.Num() == 4 && completed == 4, "the history keeps its limit");
    npc->Options.Model = FString(u"no such model");
    npc->Ask(FString(u"Hello?"));
    game.until([&] { return !npc->IsAnswering(); });
    holds(failed == 1 && npc->History.Last().Role == EAtelicoRole::Assistant, "a failed question is not in the history");
    npc->Options.Model = FString();
    npc->Ask(FString(u"Tell me everything."));
    npc->EndPlay(EEndPlayReason::Destroyed);
    holds(game.until([&] { return game.subsystem.NumRunning() == 0; }) && completed == 4, "after EndPlay nothing is broadcast");
    npc->Ask(FString(u"Tell me everything."));
    npc.reset();
    holds(game.until([&] { return game.subsystem.NumRunning() == 0; }), "a destroyed character's request ends");
}

static void async_action(Game &game) {
    UObject context;
    context.standin_world = &game.world;
    const std::unique_ptr<UAtelicoChatAsyncAction> action(UAtelicoChatAsyncAction::AtelicoChat(&context, question(u"Hello", 8)));
    FString deltas, text;
    action->OnDelta.standin_add([&](const FString &delta, const FAtelicoResponse &, const FAtelicoError &) { deltas += delta; });
    action->OnCompleted.standin_add([&](const FString &, const FAtelicoResponse &response, const FAtelicoError &) { text = response.Text; });
    action->Activate();
    game.until([&] { return !action->standin_registered; });
    holds(text.Len() > 0 && deltas == text, "the node's pins fire and it lets itself go");

    const std::unique_ptr<UAtelicoChatAsyncAction> stopped(UAtelicoChatAsyncAction::AtelicoChat(&context, question(u"Hello", 200)));
    int fired = 0;
    stopped->OnDelta.standin_add([&](const FString &, const FAtelicoResponse &, const FAtelicoError &) { fired++, stopped->Cancel(); });
    stopped->OnCompleted.standin_add([&](const FString &, const FAtelicoResponse &, const FAtelicoError &) { fired++; });
    stopped->Activate();
    game.until([&] { return game.subsystem.NumRunning() == 0; });
    holds(fired == 1 && !stopped->standin_registered, "a cancelled node fires no further pin");

    const std::unique_ptr<UAtelicoChatAsyncAction> nowhere(UAtelicoChatAsyncAction::AtelicoChat(nullptr, question(u"Hello", 8)));
    nowhere->OnFailed.standin_add([&](const FString &, const FAtelicoResponse &, const FAtelicoError &error) { fired += error.Message.IsEmpty() ? 0 : 10; });
    nowhere->Activate();
    holds(fired == 11, "a node outside of a game fails with a message");
}

static void play_again() {
    Heard heard;
    for (int n = 0; n < 5; n++) {
        Game game;
        game.subsystem.BeginChat(question(u"Write a long story.", 400), heard.handlers());
        for (int frames = 0; frames < n * 10; frames++) Game::frame();
    }
    holds(!heard.over(), "Stop during load or generation calls nothing");
    Game again;
    Heard after;
    FAtelicoChatHandlers handlers = after.handlers();
    handlers.OnCompleted = [&](const FAtelicoResponse &) { after.completed++, again.subsystem.Deinitialize(); };
    again.subsystem.BeginChat(question(u"Hi", 4), handlers);
    again.until([&] { return after.over(); });
    holds(after.completed == 1, "the next Play answers, and a handler may end the game");
}

int main() {
    UAtelicoSettings *settings = GetMutableDefault<UAtelicoSettings>();
    settings->DefaultModel = FString(u"SmolLM2-135M-Instruct");
    settings->ContextTokens = 512;
    settings->Threads = 1;
    settings->PreloadModels.Add(settings->DefaultModel);
    holds(settings->GetCategoryName().text == u"Plugins", "the settings have a page");
    const std::unique_ptr<IModuleInterface> module(standin_module_AtelicoRuntime());
    module->StartupModule();
    {
        Game game;
        subsystem(game);
        component(game);
        async_action(game);
    }
    play_again();
    holds(standin_logged == 0, "nothing was logged as an error");
    return statements::end();
}
