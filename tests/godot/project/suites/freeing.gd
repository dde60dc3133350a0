extends "res://suite.gd"
## Requests and nodes that go away while a model loads, reads a prompt or generates.


## A model that has not been loaded in this process: another name for the same file.
func _fresh_model() -> String:
	return "res://models/fresh-%d.gguf" % round_number


func _talker(model: String, prompt: String) -> AtelicoChat:
	var chat := AtelicoChat.new()
	chat.model = model
	chat.system_prompt = prompt
	chat.max_tokens = 600
	add_child(chat)
	return chat


## Long before it would have ended by itself.
func _check_gone(dropped: WeakRef) -> void:
	for i in 120:
		if dropped.get_ref() == null:
			return
		await get_tree().process_frame
	check(false, "it still runs")


func test_dropping_a_request_and_a_node_while_the_model_loads() -> void:
	var request := atelico.chat(body("Hello.", {"model": _fresh_model()}))
	var chat := _talker(_fresh_model(), "You are a guard.")
	chat.ask("Who goes there?")
	await frames(2)
	request = null
	chat.free()
	await check_still_answers()


func test_a_request_nobody_hears_is_cancelled() -> void:
	var request := atelico.chat(body("Count to a thousand.", {"max_tokens": 900}))
	await request.delta
	var dropped: WeakRef = weakref(request)
	request = null
	await check_still_answers()
	await _check_gone(dropped)


func test_dropping_a_request_while_its_prompt_is_read() -> void:
	var request := atelico.chat(long_body())
	await frames(5)
	var dropped: WeakRef = weakref(request)
	request = null
	await check_still_answers()
	await _check_gone(dropped)


func test_freeing_a_node_while_its_prompt_is_read() -> void:
	var chat := _talker(MODEL, LONG.repeat(30))
	chat.ask("Who are you?")
	await frames(5)
	chat.free()
	await check_still_answers()


func test_freeing_a_node_while_it_talks() -> void:
	var chat := _talker(MODEL, "You are a bard.")
	chat.ask("Sing the song of the whole kingdom.")
	await chat.delta
	chat.queue_free()
	await frames(3)
	await check_still_answers()


func test_freeing_a_node_inside_its_own_signals() -> void:
	for signal_name: String in ["started", "delta", "finished", "failed"]:
		var chat := _talker(MODEL if signal_name != "failed" else "no-such-model", "You are a bard.")
		chat.max_tokens = 4
		var freed: Array[bool] = []
		var free_it := func(_a: Variant = null, _b: Variant = null) -> void:
			freed.append(true)
			chat.queue_free()
		chat.connect(signal_name, free_it, CONNECT_ONE_SHOT)
		chat.ask("Sing.")
		for i in 2000:
			if not freed.is_empty():
				break
			await get_tree().process_frame
		check_equal(freed.size(), 1, "calls of %s" % signal_name)
	await check_still_answers()


func test_changing_the_scene_while_its_character_talks() -> void:
	get_tree().change_scene_to_file("res://scenes/talking.tscn")
	await frames(3)
	var chat: AtelicoChat = get_tree().current_scene.get_node("Innkeeper")
	await chat.delta
	get_tree().change_scene_to_file("res://scenes/empty.tscn")
	await frames(3)
	check(not is_instance_valid(chat), "the scene is still there")
	await check_still_answers()


func test_many_requests_that_are_cancelled_at_once() -> void:
	var requests: Array[AtelicoRequest] = []
	for i in 50:
		requests.append(atelico.chat(body("Hello %d." % i)))
	for request in requests:
		request.cancel()
	for request in requests:
		check_equal(reason(await request.finished()), "cancelled", "finish_reason")
	await check_still_answers()
