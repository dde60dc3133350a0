using System.IO;
using Atelico.Native;
using UnityEngine;

namespace Atelico
{
    /// <summary>
    /// The beginning and end of Play. Statics survive a Play without domain reload, so what an earlier Play left is ended
    /// before the first scene loads.
    /// </summary>
    internal static class AtelicoPlayMode
    {
        [RuntimeInitializeOnLoadMethod(RuntimeInitializeLoadType.SubsystemRegistration)]
        private static void Begin()
        {
            LivingEngines.DisposeAll();
            string folder = AtelicoPaths.Bundle;
            if (!AtelicoLibrary.Folders.Contains(folder))
            {
                AtelicoLibrary.Folders.Add(folder);
            }
            Application.quitting -= LivingEngines.DisposeAll;
            Application.quitting += LivingEngines.DisposeAll;
        }
    }

    /// <summary>Where the bundle and the models lie. Unity copies StreamingAssets into a desktop build as it is.</summary>
    public static class AtelicoPaths
    {
        /// <summary>Assets/StreamingAssets/atelico.</summary>
        public static string Bundle
        {
            get { return Path.Combine(Application.streamingAssetsPath, "atelico"); }
        }

        /// <summary>Assets/StreamingAssets/atelico/models.</summary>
        public static string Models
        {
            get { return Path.Combine(Bundle, "models"); }
        }
    }
}
