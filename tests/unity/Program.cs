// The Unity package on mono, against the real library and SmolLM2, with stand-ins for UnityEngine. Not a test of Unity.

using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Reflection;
using System.Threading;
using System.Threading.Tasks;
using Atelico;
using Atelico.Json;
using Atelico.Native;
using NUnit.Framework;
using static Statements;

public static class Program
{
    private const string Model = "SmolLM2-135M-Instruct";

    private static AtelicoEngine _engine;

    private static ChatRequest Question(string content, int maxTokens)
    {
        return new ChatRequest(Model) { MaxTokens = maxTokens, Temperature = 0 }.User(content);
    }

    private static AtelicoConfig Small(int contextTokens = 512)
    {
        return new AtelicoConfig { ContextTokens = contextTokens, Threads = 1 };
    }

    /// <summary>Pump, as frames would, until something holds; at most a minute.</summary>
    private static bool Until(AtelicoEngine engine, Func<bool> condition)
    {
        var watch = Stopwatch.StartNew();
        while (!condition() && watch.Elapsed.TotalSeconds < 60)
        {
            engine.Pump();
            Thread.Sleep(2);
        }
        return condition();
    }

    private static T Ended<T>(AtelicoEngine engine, T task) where T : Task
    {
        Until(engine, () => task.IsCompleted);
        return task;
    }

    private static AtelicoException ErrorOf(Task task)
    {
        return task.IsFaulted ? task.Exception.InnerException as AtelicoException : null;
    }

    private static AtelicoException Caught(Action action)
    {
        try
        {
            action();
        }
        catch (AtelicoException exception)
        {
            return exception;
        }
        return null;
    }

    public static int Main(string[] arguments)
    {
        if (arguments.Length > 0)
        {
            Missing(); // in a process of its own: mono remembers what it did not find
            return End();
        }
        StandInRunner.RunAll((name, wrong) => Holds(wrong == null, name, wrong));
        Loading();
        Answering();
        TextBothWays();
        LargeAnswers();
        Cancelling();
        Threads();
        Failing();
        TwoEngines();
        Disposing();
        Forgetting();
        Native();
        InUnity();
        InEditor();
        return End();
    }

    private static void Missing()
    {
        AtelicoLibrary.Folders.Add("/nowhere");
        AtelicoException missing = Caught(() => new AtelicoEngine());
        Holds(missing != null && missing.Code == AtelicoResult.InitFailed && missing.Message.Contains("StreamingAssets"),
            "a missing library is an error that says where to put it", missing);
    }

    private static void Loading()
    {
        AtelicoLibrary.Folders.Add("/nowhere");
        AtelicoLibrary.Folders.Add(Environment.GetEnvironmentVariable("LIBRARY_FOLDER"));
        _engine = new AtelicoEngine(Small(1024));
        Holds(AtelicoEngine.Version.Contains("."), "the library is found by its folder and has a version");
        _engine.LoadModel(Model);
        Holds(Until(_engine, () => _engine.GetModelState(Model).Loading >= ModelLoading.Ready)
            && _engine.GetModelState(Model).Loading == ModelLoading.Ready, "a model gets ready", _engine.GetModelState(Model).Error);
        Holds(Until(_engine, () => _engine.GetModelState("no such model").Loading == ModelLoading.Failed)
            && _engine.GetModelState("no such model").Error.Code == AtelicoResult.ModelNotFound,
            "an unknown model's state says so");
    }

    private static void Answering()
    {
        var deltas = new List<string>();
        ChatRequest request = Question("Repeat: the green lantern hangs over the north pier.", 32);
        Task<ChatResponse> task = _engine.ChatAsync(request, deltas.Add);
        Holds(!task.IsCompleted && deltas.Count == 0, "a request calls nothing before the next Pump");
        Ended(_engine, task);
        Holds(task.Status == TaskStatus.RanToCompletion, "a task ends with an answer", task.Exception);
        ChatResponse response = task.Result;
        Holds(deltas.Count > 1 && string.Concat(deltas) == response.Text, "joined deltas are the text");
        Holds(response.PromptTokens > 0 && response.CompletionTokens > 0, "tokens are counted");
        Holds(response.Timings.FirstTokenMs > 0 && response.Timings.TokensPerSecond > 0 && response.Device == "cpu",
            "timings and device are readable");
        Holds(response.FinishReason == "stop" || response.FinishReason == "length", "the finish reason is readable");
        Holds(_engine.Chat(request).Text == response.Text, "waiting gives the same text as pumping");

        request.Proposer = "prompt_lookup";
        request.DraftTokens = 5;
        request.Extra["atelico"] = "{\"governor\":\"off\"}";
        ChatResponse guessed = Ended(_engine, _engine.ChatAsync(request)).Result;
        Holds(guessed.Text == response.Text, "speculation does not change the text");
        Holds(guessed.Speculation.Active && guessed.Speculation.Proposer == "prompt_lookup"
            && guessed.Speculation.Accepted > 0 && guessed.Speculation.Accepted <= guessed.Speculation.Proposed
            && guessed.Speculation.Sources.Count > 0, "speculation's numbers are readable");
        request.Proposer = "crystal_ball";
        ChatResponse plain = Ended(_engine, _engine.ChatAsync(request)).Result;
        Holds(!plain.Speculation.Active && plain.Speculation.Reason.Contains("crystal_ball"), "an unknown proposer decodes plainly and says why");

        request = Question("Invent a character. Answer as JSON.", 60);
        request.JsonSchema = "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":20},"
            + "\"class\":{\"enum\":[\"mage\",\"rogue\"]}},\"required\":[\"name\",\"class\"],\"additionalProperties\":false}";
        JsonValue character = Ended(_engine, _engine.ChatAsync(request)).Result.ParseText();
        Holds(character["name"].Kind == JsonKind.String && (character["class"].AsString() == "mage" || character["class"].AsString() == "rogue"),
            "an answer under a schema is parsed");
    }

    private static void TextBothWays()
    {
        const string said = "Grüße, 世界! \U0001F30A\n\"quoted\" \\ and a tab\t.";
        ChatRequest request = Question("Answer as JSON: " + said, 120);
        request.JsonSchema = "{\"const\":" + JsonText.Quote(said) + "}";
        var deltas = new List<string>();
        ChatResponse response = Ended(_engine, _engine.ChatAsync(request, deltas.Add)).Result;
        Holds(response.ParseText().AsString() == said, "UTF-8 goes in and comes out", response.Text);
        Holds(deltas.TrueForAll(delta => !char.IsLowSurrogate(delta[0]) && !char.IsHighSurrogate(delta[delta.Length - 1])),
            "deltas split no character");
        Holds(ErrorOf(_engine.ChatAsync(Question("half \ud83c", 4))).Code == AtelicoResult.InvalidArgument,
            "half of a surrogate pair is refused, not replaced");
        Holds(ErrorOf(_engine.ChatJsonAsync("{}\0{}")).Code == AtelicoResult.InvalidArgument, "a NUL inside a request is refused, not cut at");
        Holds(Ended(_engine, _engine.ChatAsync(Question("a\0b", 4))).Status == TaskStatus.RanToCompletion, "a NUL inside a message is escaped");
    }

    private static void LargeAnswers()
    {
        ChatRequest request = Question("Count to one hundred.", 64);
        request.Extra["logprobs"] = "true";
        request.Extra["top_logprobs"] = "20";
        string json = _engine.ChatJson(request.ToJson());
        JsonValue content = JsonValue.Parse(json)["choices"][0]["logprobs"]["content"];
        Holds(json.Length > 3 * 16 * 1024 && content.Count > 0 && content[0]["top_logprobs"].Count == 20,
            "a response larger than the first buffer is whole", json.Length);
        Holds(Ended(_engine, _engine.ChatAsync(request)).Result.CompletionTokens == content.Count, "so are large events");
        request = Question("Hello", 8);
        request.Extra["n"] = "2";
        ChatResponse two = Ended(_engine, _engine.ChatAsync(request)).Result;
        Holds(two.Choices.Count == 2 && two.Choices[1].Text == two.Text, "both of two choices are read");
    }

    private static void Cancelling()
    {
        ChatRequest endless = Question("Write a very long story.", 800);
        var source = new CancellationTokenSource();
        source.Cancel();
        Task<ChatResponse> before = _engine.ChatAsync(endless, null, source.Token);
        Holds(before.IsCanceled && _engine.RunningJobs == 0, "a token cancelled before ends the task at once");

        source = new CancellationTokenSource();
        Task<ChatResponse> sameFrame = _engine.ChatAsync(endless, null, source.Token);
        source.Cancel();
        Holds(Ended(_engine, sameFrame).IsCanceled, "a token cancelled in the same frame cancels");

        source = new CancellationTokenSource();
        string text = "";
        Task<ChatResponse> during = _engine.ChatAsync(endless, delta => text += delta, source.Token);
        Until(_engine, () => text != "");
        new Thread(source.Cancel).Start();
        string atEnd = null;
        during.ContinueWith(_ => atEnd = text, TaskContinuationOptions.ExecuteSynchronously);
        Ended(_engine, during);
        Until(_engine, () => _engine.RunningJobs == 0);
        Holds(during.IsCanceled && text == atEnd, "a token cancelled during the answer, by another thread, ends its deltas");

        source = new CancellationTokenSource();
        Task<ChatResponse> after = Ended(_engine, _engine.ChatAsync(Question("Hi", 4), null, source.Token));
        source.Cancel();
        _engine.Pump();
        Holds(after.Status == TaskStatus.RanToCompletion, "a token cancelled after the answer changes nothing");

        source = new CancellationTokenSource();
        Task<ChatResponse> inside = _engine.ChatAsync(endless, _ => source.Cancel(), source.Token);
        Holds(Ended(_engine, inside).IsCanceled, "onDelta may cancel its own request");

        ChatJob job = _engine.StartChat(endless);
        Until(_engine, () => job.Text != "");
        job.Cancel();
        job.Cancel();
        ChatResponse kept = Ended(_engine, job.Completion).Result;
        Holds(kept.FinishReason == "cancelled" && kept.Text == job.Text && kept.Text != "", "a cancelled job keeps its text");
        job.Cancel();

        for (int i = 0; i < 30; i++)
        {
            using (var mash = new CancellationTokenSource())
            {
                _engine.ChatAsync(endless, null, mash.Token);
                mash.Cancel();
            }
        }
        Holds(Ended(_engine, _engine.ChatAsync(Question("Hi", 4))).Status == TaskStatus.RanToCompletion
            && Until(_engine, () => _engine.RunningJobs == 0), "thirty cancelled requests do not hinder the next");
    }

    private static async Task<int> ThreadAfter(Task task)
    {
        await task.ConfigureAwait(false);
        return Thread.CurrentThread.ManagedThreadId;
    }

    private static void Threads()
    {
        int here = Thread.CurrentThread.ManagedThreadId;
        var threads = new HashSet<int>();
        Task<ChatResponse> task = _engine.ChatAsync(Question("Hello", 8), _ => threads.Add(Thread.CurrentThread.ManagedThreadId));
        Task<int> continued = ThreadAfter(task);
        Ended(_engine, continued);
        Holds(threads.Count == 1 && threads.Contains(here) && continued.Result == here, "deltas and continuations run on the pump's thread");

        Task<ChatResponse> elsewhere = Task.Factory.StartNew(() => _engine.ChatAsync(Question("Hello", 8))).Result;
        Holds(ThreadOf(Ended(_engine, elsewhere)), "a request may be begun on another thread");

        Task<ChatResponse> thrower = _engine.ChatAsync(Question("Hello", 8), _ => { throw new InvalidOperationException("mine"); });
        Task<ChatResponse> neighbour = _engine.ChatAsync(Question("Hello", 8));
        Ended(_engine, thrower);
        Ended(_engine, neighbour);
        Holds(thrower.IsFaulted && thrower.Exception.InnerException.Message == "mine" && neighbour.Status == TaskStatus.RanToCompletion,
            "what onDelta throws ends its own task and no other");

        bool nested = false;
        Task<ChatResponse> outer = _engine.ChatAsync(Question("Hello", 8), _ => { _engine.Pump(); nested = true; });
        Holds(Ended(_engine, outer).Status == TaskStatus.RanToCompletion && nested, "Pump inside of a callback does nothing");
    }

    private static bool ThreadOf(Task task)
    {
        return task.Status == TaskStatus.RanToCompletion;
    }

    private static void Failing()
    {
        var reported = new List<AtelicoException>();
        _engine.Failed += reported.Add;
        AtelicoException error = ErrorOf(Ended(_engine, _engine.ChatAsync(new ChatRequest("no such model").User("Hi"))));
        Holds(error != null && error.Code == AtelicoResult.ModelNotFound && error.Type != null && error.Message != "", "an unknown model is a typed error", error);
        ChatRequest hot = Question("Hi", 4);
        hot.Temperature = 9;
        error = ErrorOf(Ended(_engine, _engine.ChatAsync(hot)));
        Holds(error != null && error.Code == AtelicoResult.InvalidArgument && error.Param == "temperature", "a wrong field is named", error);
        Holds(Caught(() => _engine.Chat(hot)).Code == AtelicoResult.InvalidArgument, "waiting throws the same error");
        error = ErrorOf(Ended(_engine, _engine.ChatJsonAsync("{\"model\":")));
        Holds(error != null && error.Code == AtelicoResult.InvalidJson, "a request that is not JSON says so", error);
        error = ErrorOf(Ended(_engine, _engine.ChatAsync(Question(new string('a', 20000).Replace("a", "once more "), 4))));
        Holds(error != null && error.Code == AtelicoResult.ContextOverflow, "a prompt that does not fit says so", error);
        ChatRequest schema = Question("Hi", 4);
        schema.JsonSchema = "{\"type\":\"string\",\"pattern\":\"(?=x)y\"}";
        error = ErrorOf(Ended(_engine, _engine.ChatAsync(schema)));
        Holds(error != null && error.Code == AtelicoResult.InvalidArgument, "a schema that cannot be enforced is an error", error);
        Holds(reported.Count == 5, "each failed request is reported once, so that a log can have it", reported.Count);
        _engine.Failed -= reported.Add;
        using (var wrong = new AtelicoEngine("{\"n_ctx\": \"many\"}"))
        {
            error = ErrorOf(Ended(wrong, wrong.ChatAsync(Question("Hi", 4))));
            Holds(error != null && error.Code == AtelicoResult.InitFailed && error.Message.Contains("n_ctx"), "a wrong configuration fails the first request", error);
        }
        Holds(Ended(_engine, _engine.ChatAsync(Question("Hi", 4))).Status == TaskStatus.RanToCompletion, "after all these errors the next request works");
    }

    private static void TwoEngines()
    {
        using (var first = new AtelicoEngine(Small()))
        using (var second = new AtelicoEngine(Small()))
        {
            Task<ChatResponse> one = first.ChatAsync(Question("Hello", 12)), two = second.ChatAsync(Question("Hello", 12));
            Until(first, () => { second.Pump(); return one.IsCompleted && two.IsCompleted; });
            Holds(one.Result.Text == two.Result.Text && one.Result.Text != "", "two engines answer at once");
            Task<ChatResponse> ended = first.ChatAsync(Question("Write a long story.", 400));
            first.Dispose();
            Holds(ended.IsCanceled && Ended(second, second.ChatAsync(Question("Hi", 4))).Status == TaskStatus.RanToCompletion,
                "the end of one leaves the other alone");
        }
    }

    private static void Disposing()
    {
        var engine = new AtelicoEngine(Small());
        string heard = "";
        Task<ChatResponse> running = engine.ChatAsync(Question("Write a long story.", 400), delta => heard += delta);
        Until(engine, () => heard != "");
        engine.Dispose();
        engine.Dispose();
        engine.Pump();
        Holds(running.IsCanceled && engine.RunningJobs == 0, "Dispose during an answer cancels it");
        bool refused = false;
        try
        {
            engine.ChatAsync(Question("Hi", 4));
        }
        catch (ObjectDisposedException)
        {
            refused = true;
        }
        Holds(refused, "a disposed engine says so");

        var inside = new AtelicoEngine(Small());
        Task<ChatResponse> disposer = inside.ChatAsync(Question("Write a long story.", 400), _ => inside.Dispose());
        Task<ChatResponse> other = inside.ChatAsync(Question("Write a long story.", 400));
        Until(inside, () => disposer.IsCompleted && other.IsCompleted);
        Holds(disposer.IsCanceled && other.IsCanceled, "a callback may dispose its engine");

        var waited = new AtelicoEngine(Small());
        AtelicoException interrupted = null;
        var waiter = new Thread(() => interrupted = Caught(() => waited.Chat(Question("Write a long story.", 400))));
        waiter.Start();
        Thread.Sleep(300);
        waited.Dispose();
        Holds(waiter.Join(30000) && interrupted != null && interrupted.Code == AtelicoResult.ShuttingDown,
            "Dispose ends a thread's waiting Chat", interrupted);

        for (int i = 0; i < 12; i++)
        {
            var brief = new AtelicoEngine(Small());
            brief.LoadModel(Model);
            brief.ChatAsync(Question("Hi", 4));
            Thread.Sleep(i * 5);
            brief.Pump();
            brief.Dispose();
        }
        Holds(LivingEngines.Count == 1, "engines may end while they load", LivingEngines.Count);
    }

    private static WeakReference Forgotten()
    {
        var engine = new AtelicoEngine(Small());
        engine.ChatAsync(Question("Write a long story.", 400));
        return new WeakReference(engine);
    }

    private static void Forgetting()
    {
        WeakReference engine = null;
        var thread = new Thread(() => engine = Forgotten()); // its stack holds nothing afterwards
        thread.Start();
        thread.Join();
        for (int i = 0; i < 20 && engine.IsAlive; i++)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
            Thread.Sleep(10);
        }
        Holds(!engine.IsAlive && LivingEngines.Count == 1, "an engine that everybody forgot is collected, its handle with it");

        var deltas = new List<string>();
        Task<ChatResponse> answer = _engine.ChatAsync(Question("Count to twenty.", 40), deltas.Add);
        Until(_engine, () =>
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
            return answer.IsCompleted;
        });
        Holds(answer.Status == TaskStatus.RanToCompletion && string.Concat(deltas) == answer.Result.Text, "collections during an answer take nothing away");
    }

    private static void Native()
    {
        // The plain functions, exactly as atelico.h has them.
        EngineHandle handle = AtelicoNative.atelico_create(Utf8.Terminated("configuration", Small().ToJson()));
        var buffer = new byte[65536];
        int length = AtelicoNative.atelico_chat_completion(
            handle, Utf8.Terminated("request", Question("Hello", 4).ToJson()), buffer, buffer.Length);
        Holds(length > 0 && JsonValue.Parse(Utf8.Text(buffer, length))["object"].AsString() == "chat.completion", "the C functions work as they are written");
        handle.End();
        Holds(handle.IsClosed, "a handle can be ended");
    }

    private static void Call(object target, string method)
    {
        target.GetType().GetMethod(method, BindingFlags.Instance | BindingFlags.NonPublic).Invoke(target, null);
    }

    private static AtelicoBehaviour Awoken(string model)
    {
        var behaviour = new AtelicoBehaviour();
        behaviour.Model = model;
        Set(behaviour, "contextTokens", 512);
        Set(behaviour, "threads", 1);
        Call(behaviour, "Awake");
        return behaviour;
    }

    private static void Set(object target, string field, object value)
    {
        target.GetType().GetField(field, BindingFlags.Instance | BindingFlags.NonPublic).SetValue(target, value);
    }

    private static void BeginPlay()
    {
        Type type = typeof(AtelicoEngine).Assembly.GetType("Atelico.AtelicoPlayMode");
        type.GetMethod("Begin", BindingFlags.Static | BindingFlags.NonPublic).Invoke(null, null);
    }

    private static async Task Talk(AtelicoBehaviour behaviour, List<string> events)
    {
        try
        {
            await behaviour.ChatAsync(Question("Write a long story.", 400), _ => events.Add("delta"));
            events.Add("completed");
        }
        catch (OperationCanceledException)
        {
            events.Add("cancelled");
        }
    }

    private static void InUnity()
    {
        BeginPlay();
        Holds(_engine.IsDisposed && LivingEngines.Count == 0, "what an earlier Play left is ended when the next begins");
        AtelicoBehaviour behaviour = Awoken(Model);
        ChatRequest request = behaviour.NewRequest().User("Hello");
        request.MaxTokens = 8;
        Task<ChatResponse> answer = behaviour.ChatAsync(request);
        for (int frame = 0; frame < 20000 && !answer.IsCompleted; frame++)
        {
            Call(behaviour, "Update");
            Thread.Sleep(2);
        }
        Holds(answer.Status == TaskStatus.RanToCompletion && answer.Result.Text != "", "a component answers by its Update alone", answer.Exception);

        var events = new List<string>();
        Task talk = Talk(behaviour, events);
        for (int frame = 0; frame < 20000 && events.Count == 0; frame++)
        {
            Call(behaviour, "Update");
            Thread.Sleep(2);
        }
        Call(behaviour, "OnDestroy");
        int n = events.Count;
        Call(behaviour, "Update");
        Holds(talk.IsCompleted && events[n - 1] == "cancelled" && events.Count == n, "an await ends when its object is destroyed, and nothing comes after",
            string.Join(" ", events));

        AtelicoBehaviour wrong = Awoken("no such model");
        Task<ChatResponse> failed = wrong.ChatAsync(wrong.NewRequest().User("Hi"));
        for (int frame = 0; frame < 20000 && !failed.IsCompleted; frame++)
        {
            Call(wrong, "Update");
            Thread.Sleep(2);
        }
        Holds(UnityEngine.Debug.StandInLog.Exists(line => line.StartsWith("error: ModelNotFound")), "a failed request is in Unity's log, awaited or not");

        for (int play = 0; play < 5; play++)
        {
            BeginPlay();
            AtelicoBehaviour again = Awoken(Model);
            again.ChatAsync(Question("Write a long story.", 400));
            Thread.Sleep(play * 20);
            Call(again, "Update");
            UnityEngine.Application.StandInQuit();
        }
        Holds(LivingEngines.Count == 0, "Play and Stop may repeat, while loading too", LivingEngines.Count);

        var sample = new TalkingCharacter();
        AtelicoBehaviour engine = Awoken(Model);
        Set(sample, "atelico", engine);
        sample.Ask("May I moor here?");
        for (int frame = 0; frame < 20000 && engine.Engine.RunningJobs > 0; frame++)
        {
            Call(engine, "Update");
            Thread.Sleep(2);
        }
        Holds(sample.Line.Length > 3, "the sample's character says something", sample.Line);
        Call(engine, "OnDestroy");
    }

    private static void InEditor()
    {
        Type type = typeof(AtelicoEngine).Assembly.GetType("Atelico.Editor.AtelicoEditorReload");
        System.Runtime.CompilerServices.RuntimeHelpers.RunClassConstructor(type.TypeHandle);
        var engine = new AtelicoEngine(Small());
        Task<ChatResponse> running = engine.ChatAsync(Question("Write a long story.", 400));
        UnityEditor.AssemblyReloadEvents.StandInReload();
        Holds(engine.IsDisposed && running.IsCanceled && LivingEngines.Count == 0, "a reload of scripts ends engines");
        engine = new AtelicoEngine(Small());
        UnityEditor.EditorApplication.StandInChange(UnityEditor.PlayModeStateChange.ExitingEditMode);
        bool before = engine.IsDisposed;
        UnityEditor.EditorApplication.StandInChange(UnityEditor.PlayModeStateChange.EnteredEditMode);
        Holds(!before && engine.IsDisposed, "so does the end of Play");

        UnityEngine.Debug.StandInLog.Clear();
        object check = Activator.CreateInstance(typeof(AtelicoEngine).Assembly.GetType("Atelico.Editor.AtelicoBuildCheck"));
        ((UnityEditor.Build.IPreprocessBuildWithReport)check).OnPreprocessBuild(new UnityEditor.Build.Reporting.BuildReport());
        Holds(UnityEngine.Debug.StandInLog.Exists(line => line.Contains("libatelico.so is not in"))
            && UnityEngine.Debug.StandInLog.Exists(line => line.Contains("no .gguf")), "a build without bundle and model warns");
    }
}
