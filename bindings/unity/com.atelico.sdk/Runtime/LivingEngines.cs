using System;
using System.Collections.Generic;

namespace Atelico
{
    /// <summary>
    /// The engines that are not disposed, so that the end of Play and a reload of scripts can end them. Holds them weakly: an
    /// engine that everybody has forgotten is collected and ends too.
    /// </summary>
    public static class LivingEngines
    {
        private static readonly List<WeakReference> Engines = new List<WeakReference>(); // guarded by itself

        public static int Count
        {
            get
            {
                lock (Engines)
                {
                    return Engines.FindAll(engine => engine.IsAlive).Count;
                }
            }
        }

        /// <summary>Dispose all of them. Returns at once.</summary>
        public static void DisposeAll()
        {
            WeakReference[] engines;
            lock (Engines)
            {
                engines = Engines.ToArray();
            }
            foreach (WeakReference engine in engines)
            {
                var living = (AtelicoEngine)engine.Target;
                if (living != null)
                {
                    living.Dispose();
                }
            }
        }

        internal static void Add(AtelicoEngine engine)
        {
            lock (Engines)
            {
                Engines.RemoveAll(other => !other.IsAlive);
                Engines.Add(new WeakReference(engine));
            }
        }

        internal static void Remove(AtelicoEngine engine)
        {
            lock (Engines)
            {
                Engines.RemoveAll(other => !other.IsAlive || ReferenceEquals(other.Target, engine));
            }
        }
    }
}
