using System;
using System.Threading;
using Atelico;
using UnityEngine;

/// <summary>A character that answers. Call Ask from a button; read Line each frame to show it.</summary>
public class TalkingCharacter : MonoBehaviour
{
    [SerializeField] private AtelicoBehaviour atelico;
    [SerializeField, TextArea] private string persona = "You are the harbour master. Answer in one sentence.";

    private readonly CancellationTokenSource _gone = new CancellationTokenSource();
    private bool _answering;

    /// <summary>What the character says, as far as it has come.</summary>
    public string Line { get; private set; } = "";

    public async void Ask(string question)
    {
        if (_answering)
        {
            return; // the player mashes the button
        }
        _answering = true;
        Line = "";
        try
        {
            ChatRequest request = atelico.NewRequest().System(persona).User(question);
            request.MaxTokens = 60;
            request.Proposer = "auto";
            ChatResponse response = await atelico.ChatAsync(request, delta => Line += delta, _gone.Token);
            Debug.Log(response.Timings.TokensPerSecond + " tokens per second");
        }
        catch (OperationCanceledException)
        {
            // This object or the engine is gone.
        }
        catch (AtelicoException exception)
        {
            Line = "...";
            Debug.LogWarning(exception.Message);
        }
        finally
        {
            _answering = false;
        }
    }

    private void OnDestroy()
    {
        _gone.Cancel();
    }
}
