using System.Collections.Generic;
using System.Text;
using Atelico.Json;

namespace Atelico
{
    /// <summary>An engine's configuration. What is null keeps its default.</summary>
    public sealed class AtelicoConfig
    {
        /// <summary>Folders searched for .gguf files.</summary>
        public List<string> ModelFolders { get; } = new List<string>();

        /// <summary>Names of your own for models' names or files.</summary>
        public Dictionary<string, string> Aliases { get; } = new Dictionary<string, string>();

        /// <summary>Tokens of context per request.</summary>
        public int? ContextTokens { get; set; }

        /// <summary>Threads that decode. The default leaves one core to the renderer.</summary>
        public int? Threads { get; set; }

        /// <summary>Layers on the GPU; -1 for all.</summary>
        public int? GpuLayers { get; set; }

        /// <summary>Any other field: its name and its value as JSON.</summary>
        public Dictionary<string, string> Extra { get; } = new Dictionary<string, string>();

        public string ToJson()
        {
            var fields = new JsonFields();
            var list = new StringBuilder("[");
            foreach (string folder in ModelFolders)
            {
                list.Append(list.Length > 1 ? "," : "");
                JsonText.Quote(list, folder);
            }
            fields.Set("model_folders", list.Append(']').ToString());
            var aliases = new JsonFields();
            foreach (KeyValuePair<string, string> alias in Aliases)
            {
                aliases.Set(alias.Key, JsonText.Quote(alias.Value));
            }
            fields.Set("aliases", aliases.ToJson());
            fields.Set("n_ctx", ContextTokens);
            fields.Set("n_threads", Threads);
            fields.Set("n_gpu_layers", GpuLayers);
            foreach (KeyValuePair<string, string> field in Extra)
            {
                fields.Set(field.Key, field.Value);
            }
            return fields.ToJson();
        }
    }
}
