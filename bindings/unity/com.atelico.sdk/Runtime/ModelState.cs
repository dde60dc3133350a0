namespace Atelico
{
    public enum ModelLoading
    {
        /// <summary>Nobody has asked for it, or the library has not looked yet: ask again next frame.</summary>
        NotLoaded = 0,
        Loading = 1,
        Ready = 2,
        /// <summary>See ModelState.Error.</summary>
        Failed = 3
    }

    /// <summary>How far a model is.</summary>
    public struct ModelState
    {
        internal ModelState(ModelLoading loading, float progress, AtelicoException error)
        {
            Loading = loading;
            Progress = progress;
            Error = error;
        }

        public ModelLoading Loading { get; }

        /// <summary>The share that is loaded, 0 to 1.</summary>
        public float Progress { get; }

        /// <summary>Why it failed, else null.</summary>
        public AtelicoException Error { get; }
    }
}
