extends "res://suite.gd"
## The game goes on while a model works.

var _last := 0
var _longest := 0
var _n_frames := 0


func _process(_delta: float) -> void:
	var now := Time.get_ticks_usec()
	if _last > 0:
		_longest = maxi(_longest, now - _last)
	_last = now
	_n_frames += 1


func _measure(what: String, request: Dictionary) -> void:
	await frames(5)
	_longest = 0
	_n_frames = 0
	var start := Time.get_ticks_usec()
	var response: Dictionary = await atelico.chat(request).finished()
	var took := Time.get_ticks_usec() - start
	print("frames: %s: %d in %d ms, longest gap %.1f ms" % [what, _n_frames, took / 1000.0, _longest / 1000.0])
	check(content(response) != "", str(response))
	check(_n_frames >= 5, "only %d frames" % _n_frames)
	check(_longest < took / 2.0, "one frame took %.0f of %.0f ms" % [_longest / 1000.0, took / 1000.0])


func test_frames_keep_coming_while_a_model_loads() -> void:
	await _measure("loading", body("Hello.", {"model": "res://models/frames-%d.gguf" % round_number}))


func test_frames_keep_coming_while_a_prompt_is_read() -> void:
	await _measure("reading", long_body())


func test_frames_keep_coming_while_text_is_generated() -> void:
	await _measure("generating", body("Tell me of the sea.", {"max_tokens": 60}))
