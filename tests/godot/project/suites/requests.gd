extends "res://suite.gd"
## atelico.chat_completion, atelico.chat and AtelicoRequest.


func test_the_call_of_the_documentation_answers() -> void:
	var response: Dictionary = atelico.chat_completion({
		"model": "in-memory::SmolLM2-135M-Instruct",
		"messages": [{"role": "user", "content": "Repeat this: the red fox and the red fox and the red fox"}],
		"speculative": {"proposer": "prompt_lookup", "k": 5},
		"temperature": 0.0,
		"max_tokens": 24,
	})
	check(content(response) != "", "no text in %s" % response)
	var speculation: Dictionary = response.atelico.speculation
	check_equal(speculation.proposer, "prompt_lookup", "the proposer")
	check(speculation.active or speculation.reason != null, "speculation is off without a reason: %s" % speculation)


func test_speculation_leaves_the_answer_as_it_is() -> void:
	var question := "Repeat this: one two three one two three one two three"
	var plain: Dictionary = await atelico.chat(body(question, {"max_tokens": 24})).finished()
	var drafted := body(question, {"max_tokens": 24, "speculative": {"proposer": "prompt_lookup"}})
	check_equal(content(await atelico.chat(drafted).finished()), content(plain), "the drafted answer")


func test_counts_are_whole_numbers() -> void:
	var response: Dictionary = await atelico.chat(body("Hello.", {"max_tokens": 5.0})).finished()
	check_equal(typeof(response.usage.completion_tokens), TYPE_INT, "the type of completion_tokens")
	check_equal(response.usage.completion_tokens, 5, "completion_tokens")
	check_equal(reason(response), "length", "finish_reason")


func test_deltas_add_up_to_the_answer() -> void:
	var pieces := PackedStringArray()
	var order := PackedStringArray()
	var request := atelico.chat(body("Tell me of the sea.", {"max_tokens": 30}))
	request.delta.connect(func(text: String) -> void: pieces.append(text))
	request.completed.connect(func(_response: Dictionary) -> void: order.append("completed"))
	request.ended.connect(func(_response: Dictionary) -> void: order.append("ended"))
	request.failed.connect(func(_error: Dictionary) -> void: order.append("failed"))
	var response: Dictionary = await request.finished()
	check(pieces.size() > 1, "the text came in one piece")
	check_equal("".join(pieces), content(response), "the text of the deltas")
	check_equal(request.text, content(response), "request.text")
	check_equal(order, PackedStringArray(["completed", "ended"]), "the order of signals")


func test_a_request_can_be_awaited_late() -> void:
	var request := atelico.chat(body("Hello."))
	await request.completed
	await frames(3)
	var response: Dictionary = await request.finished()
	check(request.is_ended(), "it has not ended")
	check_equal(content(response), request.text, "the late answer")
	check_equal(request.get_result(), response, "get_result()")


func test_a_request_needs_no_variable() -> void:
	var seen: Array[Dictionary] = []
	atelico.chat(body("Hello.", {"max_tokens": 3})).completed.connect(func(r: Dictionary) -> void: seen.append(r))
	for i in 2000:
		if not seen.is_empty():
			break
		await get_tree().process_frame
	check_equal(seen.size(), 1, "the number of answers")


func test_cancelling_in_the_same_frame_gives_no_text() -> void:
	var request := atelico.chat(body("Count to a thousand.", {"max_tokens": 500}))
	request.cancel()
	request.cancel()
	var response: Dictionary = await request.finished()
	check_equal(reason(response), "cancelled", "finish_reason")
	check_equal(content(response), "", "the text")
	request.cancel()
	await check_still_answers()


func test_cancelling_keeps_the_text_so_far() -> void:
	var request := atelico.chat(body("Count to a thousand.", {"max_tokens": 500}))
	await request.delta
	request.cancel()
	var response: Dictionary = await request.finished()
	check_equal(reason(response), "cancelled", "finish_reason")
	check(content(response) != "" and response.usage.completion_tokens < 500, "the text is %s" % content(response))


func test_cancelling_inside_a_signal_is_safe() -> void:
	var request := atelico.chat(body("Count to a thousand.", {"max_tokens": 500}))
	request.delta.connect(func(_text: String) -> void: request.cancel())
	check_equal(reason(await request.finished()), "cancelled", "finish_reason")


func test_two_chats_run_at_once_and_get_their_own_answers() -> void:
	var running: Array[AtelicoRequest] = []
	for word: String in ["red", "cat"]:
		var schema := {"const": "the %s, and the %s again" % [word, word]}
		var format := {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
		running.append(atelico.chat(body("Say it.", {"response_format": format, "max_tokens": 60})))
	check_equal(content(await running[0].finished()), "\"the red, and the red again\"", "the first answer")
	check_equal(content(await running[1].finished()), "\"the cat, and the cat again\"", "the second answer")


func test_signals_arrive_on_the_main_thread() -> void:
	var threads := {}
	var request := atelico.chat(body("Hello."))
	request.delta.connect(func(_t: String) -> void: threads[OS.get_thread_caller_id()] = true)
	request.completed.connect(func(_r: Dictionary) -> void: threads[OS.get_thread_caller_id()] = true)
	await request.finished()
	check_equal(threads.keys(), [OS.get_main_thread_id()], "the threads")


func test_a_thread_of_the_game_may_wait_for_an_answer() -> void:
	var thread := Thread.new()
	thread.start(func() -> Dictionary: return atelico.chat_completion(body("Hello.")))
	var n_frames := 0
	while thread.is_alive():
		n_frames += 1
		await get_tree().process_frame
	check(n_frames > 1, "the thread held up the frames")
	check(content(thread.wait_to_finish()) != "", "no answer")


func test_a_paused_tree_hears_only_if_asked() -> void:
	var quiet := atelico.chat(body("Hello."))
	var eager := atelico.chat(body("Hello."))
	eager.while_paused = true
	get_tree().paused = true
	await eager.finished()
	await frames(20)
	check(not quiet.is_ended() and quiet.text == "", "a request was delivered to a paused tree")
	get_tree().paused = false
	check(content(await quiet.finished()) != "", "the answer is lost")
