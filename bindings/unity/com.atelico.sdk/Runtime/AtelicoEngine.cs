using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;
using Atelico.Json;
using Atelico.Native;

namespace Atelico
{
    /// <summary>
    /// A configuration and the models it has loaded. Nothing waits but Chat and ChatJson: requests begin at once, also while a
    /// model loads, and somebody calls Pump once a frame to deliver their events: AtelicoBehaviour, or your own code.
    /// Any thread may use it, but only one thread pumps.
    /// </summary>
    public sealed class AtelicoEngine : IDisposable
    {
        private readonly EngineHandle _handle;
        private readonly NativeBuffer _events = new NativeBuffer();
        private readonly List<ChatJob> _jobs = new List<ChatJob>(); // guarded by itself
        private bool _pumping;
        private volatile bool _disposed;

        /// <exception cref="AtelicoException">There is no library, or too many engines live.</exception>
        public AtelicoEngine(AtelicoConfig config = null) : this(config == null ? "" : config.ToJson())
        {
        }

        /// <summary>The same with a configuration written as JSON; "" for the defaults.</summary>
        public AtelicoEngine(string configJson)
        {
            byte[] config = Utf8.Terminated("configuration", configJson);
            AtelicoLibrary.EnsureLoaded();
            _handle = AtelicoLibrary.Create(config);
            if (_handle.IsInvalid)
            {
                throw NativeBuffer.LastError((long)AtelicoResult.InitFailed);
            }
            LivingEngines.Add(this);
        }

        /// <summary>Every request that fails is also reported here, in Pump: for a log, so that none is lost.</summary>
        public event Action<AtelicoException> Failed;

        /// <summary>The library's version, such as "0.1.0".</summary>
        public static string Version
        {
            get
            {
                AtelicoLibrary.EnsureLoaded();
                return AtelicoLibrary.Version();
            }
        }

        public bool IsDisposed
        {
            get { return _disposed; }
        }

        /// <summary>Requests that are not over, those that wind down after a cancel included.</summary>
        public int RunningJobs
        {
            get
            {
                lock (_jobs)
                {
                    return _jobs.Count;
                }
            }
        }

        /// <summary>Start loading a model, so that the first request need not wait.</summary>
        /// <exception cref="AtelicoException">The engine cannot take it. A model that fails shows up in GetModelState.</exception>
        public void LoadModel(string model)
        {
            ThrowIfDisposed();
            int result = AtelicoNative.atelico_load_model(_handle, Utf8.Terminated("model's name", model));
            if (result < 0)
            {
                throw NativeBuffer.LastError(result);
            }
        }

        /// <summary>How far a model is; ask each frame.</summary>
        public ModelState GetModelState(string model)
        {
            ThrowIfDisposed();
            float progress;
            int result = AtelicoNative.atelico_model_state(_handle, Utf8.Terminated("model's name", model), out progress);
            return result < 0
                ? new ModelState(ModelLoading.Failed, progress, NativeBuffer.LastError(result))
                : new ModelState((ModelLoading)result, progress, null);
        }

        /// <summary>
        /// Answer a request. Returns at once.
        /// </summary>
        /// <param name="onDelta">Called by Pump with new text (not the text so far; that is ChatJob.Text).</param>
        /// <param name="token">Cancels the request. The text so far was in the deltas; to keep it in a response, use
        /// StartChat and ChatJob.Cancel.</param>
        /// <returns>A task that ends in Pump: see ChatJob.Completion. It never throws AtelicoException at once.</returns>
        public Task<ChatResponse> ChatAsync(
            ChatRequest request, Action<string> onDelta = null, CancellationToken token = default(CancellationToken))
        {
            return ChatJsonAsync(request.ToJson(), onDelta, token);
        }

        /// <summary>The same for a request written as JSON; docs/requests.md has every field.</summary>
        public Task<ChatResponse> ChatJsonAsync(
            string requestJson, Action<string> onDelta = null, CancellationToken token = default(CancellationToken))
        {
            ThrowIfDisposed();
            if (token.IsCancellationRequested)
            {
                return Task.FromCanceled<ChatResponse>(token);
            }
            try
            {
                return Begin(requestJson, onDelta, token).Completion;
            }
            catch (AtelicoException exception)
            {
                Report(exception);
                return Task.FromException<ChatResponse>(exception);
            }
        }

        /// <summary>Start a request whose text so far can be looked at, and kept when it is cancelled.</summary>
        /// <exception cref="AtelicoException">It cannot be begun.</exception>
        public ChatJob StartChat(ChatRequest request, Action<string> onDelta = null)
        {
            ThrowIfDisposed();
            return Begin(request.ToJson(), onDelta, CancellationToken.None);
        }

        /// <summary>Answer a request and wait for it: for tools and worker threads, never for the main thread.</summary>
        /// <exception cref="AtelicoException">It failed, or the engine was disposed meanwhile (ShuttingDown).</exception>
        public ChatResponse Chat(ChatRequest request)
        {
            return ChatResponse.FromJson(JsonValue.Parse(ChatJson(request.ToJson())));
        }

        /// <summary>The same with JSON in and out.</summary>
        public string ChatJson(string requestJson)
        {
            ThrowIfDisposed();
            byte[] request = Utf8.Terminated("request", requestJson);
            var buffer = new NativeBuffer(); // its own: other threads may wait here too
            int length;
            try
            {
                length = buffer.Fill(
                    bytes => AtelicoNative.atelico_chat_completion(_handle, request, bytes, bytes.Length));
            }
            catch (ObjectDisposedException)
            {
                throw new AtelicoException(AtelicoResult.ShuttingDown, "The engine was disposed while the request ran.");
            }
            if (length < 0)
            {
                throw NativeBuffer.LastError(length);
            }
            return buffer.Text(length);
        }

        /// <summary>Deliver what is new, once a frame. Never waits. Inside of a callback it does nothing.</summary>
        public void Pump()
        {
            if (_pumping || _disposed)
            {
                return;
            }
            _pumping = true;
            try
            {
                ChatJob[] jobs;
                lock (_jobs)
                {
                    if (_jobs.Count == 0)
                    {
                        return;
                    }
                    jobs = _jobs.ToArray(); // callbacks may begin more: they come next frame
                }
                foreach (ChatJob job in jobs)
                {
                    if (!job.Step())
                    {
                        lock (_jobs)
                        {
                            _jobs.Remove(job);
                        }
                    }
                }
            }
            finally
            {
                _pumping = false;
            }
        }

        /// <summary>
        /// End the engine. Returns at once, also while models load or generate. Tasks of running requests end here as
        /// cancelled, so no await hangs.
        /// </summary>
        public void Dispose()
        {
            ChatJob[] jobs;
            lock (_jobs)
            {
                if (_disposed)
                {
                    return;
                }
                _disposed = true;
                jobs = _jobs.ToArray();
                _jobs.Clear();
            }
            LivingEngines.Remove(this);
            _handle.End();
            foreach (ChatJob job in jobs)
            {
                job.Abandon();
            }
        }

        internal void CancelJob(long job)
        {
            try
            {
                if (!_disposed)
                {
                    AtelicoNative.atelico_chat_cancel(_handle, job);
                }
            }
            catch (ObjectDisposedException)
            {
                // Disposed meanwhile: there is nothing to stop any more.
            }
        }

        /// <summary>The next event: Ok with its body, Empty or Done.</summary>
        internal AtelicoResult PollJob(long job, out JsonValue body)
        {
            body = null;
            int length = _events.Fill(bytes => AtelicoNative.atelico_chat_poll(_handle, job, bytes, bytes.Length));
            if (length >= 0)
            {
                body = JsonValue.Parse(_events.Text(length));
                return AtelicoResult.Ok;
            }
            if (length == (int)AtelicoResult.Empty || length == (int)AtelicoResult.Done)
            {
                return (AtelicoResult)length;
            }
            throw NativeBuffer.LastError(length);
        }

        internal void Report(AtelicoException exception)
        {
            Action<AtelicoException> failed = Failed;
            if (failed != null)
            {
                failed(exception);
            }
        }

        private ChatJob Begin(string requestJson, Action<string> onDelta, CancellationToken token)
        {
            byte[] request = Utf8.Terminated("request", requestJson);
            long id = AtelicoNative.atelico_chat_begin(_handle, request);
            if (id < 0)
            {
                throw NativeBuffer.LastError(id);
            }
            var job = new ChatJob(this, id, onDelta, token);
            lock (_jobs)
            {
                if (!_disposed)
                {
                    _jobs.Add(job);
                    return job;
                }
            }
            job.Abandon();
            return job;
        }

        private void ThrowIfDisposed()
        {
            if (_disposed)
            {
                throw new ObjectDisposedException(nameof(AtelicoEngine));
            }
        }
    }
}
