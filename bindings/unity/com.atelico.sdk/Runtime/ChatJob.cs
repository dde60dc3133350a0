using System;
using System.Threading;
using System.Threading.Tasks;
using Atelico.Json;

namespace Atelico
{
    /// <summary>
    /// A running request. Its events are delivered by AtelicoEngine.Pump, on the pump's thread: in Unity the main thread.
    /// </summary>
    public sealed class ChatJob
    {
        private readonly AtelicoEngine _engine;
        private readonly long _id;
        private readonly Action<string> _onDelta;
        private readonly CancellationToken _token;
        private readonly CancellationTokenRegistration _registration;
        private readonly ChatResponse _response = new ChatResponse();

        // Continuations run inside Pump, so on its thread, whatever the caller awaits with.
        private readonly TaskCompletionSource<ChatResponse> _completion = new TaskCompletionSource<ChatResponse>();

        internal ChatJob(AtelicoEngine engine, long id, Action<string> onDelta, CancellationToken token)
        {
            _engine = engine;
            _id = id;
            _onDelta = onDelta;
            _token = token;
            // The model stops at once; the task ends in the next Pump, so on its thread.
            _registration = token.Register(Cancel);
        }

        /// <summary>
        /// Ends with the answer, with AtelicoException, as cancelled where the token or Dispose of the engine did it, or
        /// with what onDelta has thrown.
        /// </summary>
        public Task<ChatResponse> Completion
        {
            get { return _completion.Task; }
        }

        /// <summary>The text of the first choice so far.</summary>
        public string Text
        {
            get { return _response.Text; }
        }

        /// <summary>
        /// Stop soon, from any thread. Completion then ends with the text so far and the finish reason "cancelled".
        /// </summary>
        public void Cancel()
        {
            _engine.CancelJob(_id);
        }

        /// <summary>Deliver what is new. False: the library has forgotten the job, and so may the engine.</summary>
        internal bool Step()
        {
            while (true)
            {
                if (_token.IsCancellationRequested)
                {
                    End(() => _completion.TrySetCanceled(_token));
                }
                if (_engine.IsDisposed)
                {
                    Abandon();
                    return false;
                }
                JsonValue body;
                AtelicoResult result;
                try
                {
                    result = _engine.PollJob(_id, out body);
                }
                catch (AtelicoException exception)
                {
                    Fail(exception);
                    return false;
                }
                catch (ObjectDisposedException)
                {
                    Abandon(); // by another thread, just now
                    return false;
                }
                if (result == AtelicoResult.Empty)
                {
                    return true;
                }
                if (result == AtelicoResult.Done)
                {
                    End(() => _completion.TrySetResult(_response));
                    return false;
                }
                if (!_completion.Task.IsCompleted)
                {
                    Take(body);
                }
            }
        }

        /// <summary>The engine is gone.</summary>
        internal void Abandon()
        {
            End(() => _completion.TrySetCanceled());
        }

        private void Take(JsonValue body)
        {
            JsonValue error = body["error"];
            if (error.Kind == JsonKind.Object)
            {
                var code = (AtelicoResult)body["atelico"]["result"].AsLong((long)AtelicoResult.Internal);
                Fail(new AtelicoException(
                    code, error["message"].AsString(), error["param"].AsString(), error["type"].AsString()));
                return;
            }
            _response.ReadInfo(body);
            foreach (JsonValue part in body["choices"].Items)
            {
                ChatChoice choice = _response.ChoiceOf(part);
                choice.FinishReason = part["finish_reason"].AsString() ?? choice.FinishReason;
                choice.ReasoningSoFar.Append(part["delta"]["reasoning_content"].AsString());
                string delta = part["delta"]["content"].AsString("");
                choice.TextSoFar.Append(delta);
                if (delta.Length == 0 || _onDelta == null || choice != _response.Choices[0])
                {
                    continue;
                }
                try
                {
                    _onDelta(delta);
                }
                catch (Exception exception)
                {
                    // Its own task gets it; the other requests of this frame must not suffer.
                    Cancel();
                    End(() => _completion.TrySetException(exception));
                    return;
                }
            }
        }

        private void Fail(AtelicoException exception)
        {
            _engine.Report(exception);
            End(() => _completion.TrySetException(exception));
        }

        private void End(Action complete)
        {
            _registration.Dispose();
            complete();
        }
    }
}
