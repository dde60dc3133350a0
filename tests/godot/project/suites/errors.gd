extends "res://suite.gd"
## What goes wrong comes back as a Dictionary that says what to do, and breaks nothing.


func _error(request: Dictionary) -> Dictionary:
	var result: Dictionary = await atelico.chat(request).finished()
	check(result.has("error"), "no error but %s" % result)
	return result.get("error", {"message": "", "code": "", "param": ""})


func test_an_unknown_model_is_named() -> void:
	var error := await _error({"model": "no-such-model", "messages": [{"role": "user", "content": "Hello"}]})
	check_equal(error.code, "model_not_found", "the code")
	check("no-such-model" in error.message, error.message)


func test_waiting_and_streaming_tell_the_same_error() -> void:
	var request := {"model": MODEL, "messages": "Hello"}
	check_equal(atelico.chat_completion(request), await atelico.chat(request).finished(), "the error")


func test_failed_is_emitted_with_the_error() -> void:
	var seen: Array[Dictionary] = []
	var request := atelico.chat({"model": MODEL})
	request.failed.connect(func(error: Dictionary) -> void: seen.append(error))
	request.completed.connect(func(_response: Dictionary) -> void: check(false, "completed was emitted"))
	var result: Dictionary = await request.finished()
	check_equal(seen, [result] as Array[Dictionary], "what failed said")


func test_what_json_cannot_hold_is_named_by_its_path() -> void:
	var error := await _error(body("Hello", {"metadata": {"place": [Vector2(1, 2)]}}))
	check("request.metadata.place[0]" in error.message and "VECTOR2" in error.message, error.message)
	error = await _error(body("Hello", {"temperature": NAN}))
	check("request.temperature" in error.message, error.message)
	error = await _error(body("Hello", {5: true}))
	check("key 5" in error.message, error.message)


func test_a_dictionary_that_contains_itself_is_refused() -> void:
	var request := body("Hello")
	var circle := []
	circle.append(circle)
	request.metadata = circle
	var error := await _error(request)
	circle.clear()
	check("contains itself" in error.message, error.message)


func test_wrong_fields_are_named() -> void:
	for field: String in ["temperature", "max_tokens", "messages", "speculative"]:
		var error := await _error(body("Hello", {field: "wrong"}))
		check_equal(error.param, field, "the field")
	check_equal((await _error({})).code, "missing_field", "the code of an empty request")


func test_a_schema_that_cannot_be_enforced_is_an_error() -> void:
	var schema := {"type": "string", "pattern": "^(unclosed"}
	var format := {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": true}}
	check_equal((await _error(body("Hello", {"response_format": format}))).code, "invalid_schema", "the code")


func test_a_prompt_that_does_not_fit_is_an_error() -> void:
	var error := await _error(body(LONG.repeat(400)))
	check_equal(error.code, "context_length_exceeded", "the code")
	await check_still_answers()


func test_odd_strings_are_survived() -> void:
	var result: Dictionary = await atelico.chat(body("a" + char(0xD800) + "b", {"max_tokens": 2})).finished()
	check(result.has("choices") or result.has("error"), str(result))
	var error := await _error(body("Hello", {"model": ""}))
	check_equal(error.param, "model", "the field")
	await check_still_answers()


func test_typed_dictionaries_and_packed_arrays_are_taken() -> void:
	var messages: Array[Dictionary] = [{"role": "user", "content": "Hello"}]
	var request: Dictionary = {"model": StringName(MODEL), "messages": messages, "max_tokens": 3, "temperature": 0}
	request.stop = PackedStringArray(["\n\n\n"])
	var response: Dictionary = await atelico.chat(request).finished()
	check(content(response) != "", "no answer but %s" % response)
