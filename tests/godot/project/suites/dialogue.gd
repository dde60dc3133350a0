extends "res://suite.gd"
## AtelicoChat: a character with a dialogue.

var chat: AtelicoChat


func _ready() -> void:
	chat = AtelicoChat.new()
	chat.model = MODEL
	chat.system_prompt = "You are an innkeeper in a small village by the sea. You are friendly and speak briefly."
	chat.temperature = 0
	chat.max_tokens = 12
	add_child(chat)


func test_an_answer_comes_by_signals() -> void:
	var seen := PackedStringArray()
	var pieces := PackedStringArray()
	chat.started.connect(func() -> void: seen.append("started"))
	chat.delta.connect(func(text: String) -> void: pieces.append(text))
	chat.finished.connect(func(_text: String, _response: Dictionary) -> void: seen.append("finished"))
	chat.ask("Have you got a room?")
	check(chat.is_busy(), "it is not busy")
	var told: Array = await chat.finished
	check_equal("".join(pieces), told[0], "the text of the deltas")
	check_equal(content(told[1]), told[0], "the text of the response")
	check_equal(seen, PackedStringArray(["started", "finished"]), "the signals")
	check(not chat.is_busy(), "it is still busy")


func test_the_dialogue_is_kept_and_its_memory_reused() -> void:
	await chat.ask("My name is Ann.").finished()
	var response: Dictionary = await chat.ask("What is my name?").finished()
	var roles: Array = chat.get_history().map(func(message: Dictionary) -> String: return message.role)
	check_equal(roles, ["user", "assistant", "user", "assistant"], "the roles")
	check(response.atelico.cached_tokens > 0, "nothing was reused: %s" % response.atelico)


func test_a_dialogue_survives_saving() -> void:
	await chat.ask("Привет 🐉").finished()
	var saved := JSON.stringify(chat.get_history())
	chat.reset()
	check_equal(chat.get_history(), [] as Array[Dictionary], "the history after reset")
	chat.set_history(JSON.parse_string(saved))
	check_equal(JSON.stringify(chat.get_history()), saved, "the history")
	check_equal(chat.get_history()[0].content, "Привет 🐉", "the question")


func test_a_wrong_history_is_refused() -> void:
	chat.set_history([{"role": "user", "content": "Hello"}])
	chat.set_history([{"role": "user"}])
	chat.set_history([1])
	check_equal(chat.get_history().size(), 1, "the length of the history")


func test_stopping_keeps_what_was_said() -> void:
	chat.max_tokens = 500
	chat.ask("Tell me everything about the village.")
	await chat.delta
	chat.stop()
	var told: Array = await chat.finished
	check_equal(reason(told[1]), "cancelled", "finish_reason")
	check_equal(chat.get_history()[1].content, told[0], "the answer in the history")


func test_reset_ends_an_answer_without_a_signal() -> void:
	chat.max_tokens = 500
	var request := chat.ask("Tell me everything about the village.")
	chat.finished.connect(func(_t: String, _r: Dictionary) -> void: check(false, "finished was emitted"))
	await request.delta
	chat.reset()
	check_equal(reason(await request.finished()), "cancelled", "finish_reason")
	check_equal(chat.get_history(), [] as Array[Dictionary], "the history")


func test_a_player_who_presses_enter_ten_times_gets_one_answer() -> void:
	var refused: Array[String] = []
	var request := chat.ask("A room, please.")
	for i in 9:
		chat.ask("A room, please.").failed.connect(func(e: Dictionary) -> void: refused.append(e.error.code))
	await request.finished()
	await frames(3)
	check_equal(refused, ["busy", "busy", "busy", "busy", "busy", "busy", "busy", "busy", "busy"] as Array[String], "codes")
	check_equal(chat.get_history().size(), 2, "the length of the history")


func test_failed_leaves_the_dialogue_as_it_was() -> void:
	await chat.ask("Hello.").finished()
	var before := chat.get_history()
	chat.model = "no-such-model"
	chat.ask("And now?")
	var error: Dictionary = await chat.failed
	check_equal(error.error.code, "model_not_found", "the code")
	check_equal(chat.get_history(), before, "the history")


func test_a_schema_makes_the_answer_json() -> void:
	chat.max_tokens = 60
	chat.schema = {
		"type": "object",
		"properties": {"mood": {"enum": ["happy", "grumpy"]}, "price": {"type": "integer", "minimum": 1, "maximum": 9}},
		"required": ["mood", "price"],
		"additionalProperties": false,
	}
	var answer: Variant = JSON.parse_string(content(await chat.ask("How much is a room?").finished()))
	check(answer is Dictionary and answer.mood in ["happy", "grumpy"], str(answer))


func test_the_same_seed_gives_the_same_answer() -> void:
	chat.temperature = 1.0
	chat.seed = 7
	var first := content(await chat.ask("Greet me.").finished())
	chat.reset()
	check_equal(content(await chat.ask("Greet me.").finished()), first, "the second answer")
