namespace Atelico
{
    /// <summary>The results of atelico.h. Done and Empty never reach a user of this package.</summary>
    public enum AtelicoResult
    {
        Ok = 0,
        /// <summary>The engine is disposed.</summary>
        InvalidHandle = -1,
        /// <summary>A bad argument, or a request field with a wrong value: see AtelicoException.Param.</summary>
        InvalidArgument = -2,
        /// <summary>The library, its configuration or the model could not be loaded.</summary>
        InitFailed = -3,
        /// <summary>No model has this name.</summary>
        ModelNotFound = -4,
        /// <summary>The model failed while it ran.</summary>
        InferenceFailed = -5,
        Done = -6,
        Empty = -7,
        /// <summary>The request is not JSON, too large or nested too deeply.</summary>
        InvalidJson = -8,
        /// <summary>The messages do not fit the model's context.</summary>
        ContextOverflow = -9,
        /// <summary>Cancelled before there was an answer.</summary>
        Cancelled = -10,
        /// <summary>Too many engines, requests or model names; try again later.</summary>
        Busy = -11,
        /// <summary>The engine was disposed while the call ran.</summary>
        ShuttingDown = -12,
        /// <summary>A defect of atelico, or out of memory.</summary>
        Internal = -99
    }
}
