extends "res://suite.gd"
## Models: paths of every kind, loading, states.

const FILE := "SmolLM2-135M-Instruct.gguf"


func _answers(model: String) -> void:
	var response: Dictionary = await atelico.chat(body("Hello.", {"model": model, "max_tokens": 2})).finished()
	check(content(response) != "", "%s gave %s" % [model, response])


func _error(model: String) -> String:
	var result: Dictionary = await atelico.chat(body("Hello.", {"model": model})).finished()
	check_equal(result.error.code if result.has("error") else "none", "model_not_found", "the code for %s" % model)
	return result.error.message if result.has("error") else ""


func test_a_path_of_every_kind_is_found() -> void:
	await _answers("res://models/" + FILE)
	await _answers("in-memory::res://models/" + FILE)
	await _answers("models/" + FILE)
	await _answers(ProjectSettings.globalize_path("res://models/" + FILE))
	await _answers(FILE.get_basename())


func test_a_missing_file_is_told_with_its_place() -> void:
	var message := await _error("user://models/none.gguf")
	check(OS.get_user_data_dir() + "/models/none.gguf" in message, message)
	message = await _error("res://models/none.gguf")
	check(ProjectSettings.globalize_path("res://models/none.gguf") in message, message)
	await _error("models/none.gguf")


func test_a_damaged_model_fails_and_the_next_one_loads() -> void:
	var path := "user://damaged-%d.gguf" % round_number
	var file := FileAccess.open(path, FileAccess.WRITE)
	file.store_string("This is no model.")
	file.close()
	atelico.load_model(path)
	var told: Array = await atelico.model_failed
	check_equal(told[0], path, "the model")
	check(told[1].error.message != "", "no message")
	check_equal(atelico.model_state(path).state, "failed", "the state")
	atelico.load_model(MODEL)
	check_equal(await atelico.model_ready, MODEL, "the model")
	check_equal(atelico.model_state(MODEL), {"id": MODEL, "state": "ready", "progress": 1.0}, "the state")
	var states := {}
	for model: Dictionary in atelico.models():
		states[model.id] = model.state
	check_equal(states.get(path), "failed", "the damaged model in models()")
	check_equal(states.get(MODEL), "ready", "the good model in models()")


func test_the_version_is_told() -> void:
	check(atelico.version().split(".").size() == 3, atelico.version())
