using System;
using System.Threading;
using System.Threading.Tasks;
using UnityEngine;

namespace Atelico
{
    /// <summary>
    /// An engine in a scene: made in Awake, pumped in Update, ended with its object. Requests stand still while the object is
    /// inactive. Several may live at once, but each loads its own models: share one.
    /// </summary>
    [AddComponentMenu("Atelico/Atelico Engine")]
    [DisallowMultipleComponent]
    public class AtelicoBehaviour : MonoBehaviour
    {
        [Tooltip("The model of requests that name none: the file's name without .gguf, in StreamingAssets/atelico/models.")]
        [SerializeField] private string model = "";

        [Tooltip("Load the model when the scene starts, so that the first answer need not wait.")]
        [SerializeField] private bool loadAtStart = true;

        [Tooltip("Tokens of context per request. 0: the model's own, at most 4,096.")]
        [SerializeField] private int contextTokens;

        [Tooltip("Threads that decode. 0: the physical cores but one.")]
        [SerializeField] private int threads;

        [Tooltip("Layers on the GPU, if the bundle supports one. -1: all.")]
        [SerializeField] private int gpuLayers = -1;

        [Tooltip("Log each request that fails.")]
        [SerializeField] private bool logFailures = true;

        /// <summary>The engine; null where it could not be made, which is in the log.</summary>
        public AtelicoEngine Engine { get; private set; }

        /// <summary>The model of requests that name none.</summary>
        public string Model
        {
            get { return model; }
            set { model = value; }
        }

        /// <summary>A request for this component's model.</summary>
        public ChatRequest NewRequest()
        {
            return new ChatRequest(model);
        }

        /// <summary>See AtelicoEngine.ChatAsync. The request ends with this object.</summary>
        public Task<ChatResponse> ChatAsync(
            ChatRequest request, Action<string> onDelta = null, CancellationToken token = default(CancellationToken))
        {
            return Engine != null
                ? Engine.ChatAsync(request, onDelta, token)
                : Task.FromException<ChatResponse>(
                    new AtelicoException(AtelicoResult.InvalidHandle, "This object has no engine: see the log."));
        }

        protected virtual void Awake()
        {
            var config = new AtelicoConfig { ContextTokens = contextTokens, Threads = threads, GpuLayers = gpuLayers };
            config.ModelFolders.Add(AtelicoPaths.Models);
            try
            {
                Engine = new AtelicoEngine(config);
                Engine.Failed += OnFailed;
                if (loadAtStart && !string.IsNullOrEmpty(model))
                {
                    Engine.LoadModel(model);
                }
            }
            catch (AtelicoException exception)
            {
                Debug.LogError(exception.Message, this);
            }
        }

        protected virtual void Update()
        {
            if (Engine != null)
            {
                Engine.Pump();
            }
        }

        protected virtual void OnDestroy()
        {
            if (Engine != null)
            {
                Engine.Dispose(); // returns at once, whatever loads or generates
            }
        }

        private void OnFailed(AtelicoException exception)
        {
            if (logFailures)
            {
                Debug.LogError(exception.Code + ": " + exception.Message, this);
            }
        }
    }
}
