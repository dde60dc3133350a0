extends "res://suite.gd"
## Tools that are functions of the game.

const DOOR := {
	"type": "object",
	"properties": {"door": {"enum": ["north", "south"]}},
	"required": ["door"],
	"additionalProperties": false,
}

var opened: Array[Dictionary] = []
var threads := {}


func open_door(arguments: Dictionary) -> String:
	opened.append(arguments)
	threads[OS.get_thread_caller_id()] = true
	return "The door is open."


func open_door_slowly(arguments: Dictionary) -> String:
	await frames(5)
	return open_door(arguments)


func ring_bell() -> void:
	opened.append({})


func never() -> void:
	await Signal(self, "nobody_emits_this")


signal nobody_emits_this


func _with_tool(callable: Callable, more: Dictionary = {}) -> Dictionary:
	var request := body("Open the north door, please.", {
		"tools": [{"callable": callable, "description": "Opens a door.", "parameters": DOOR}],
		"tool_choice": "required",
		"parallel_tool_calls": false,
		"max_tokens": 60,
	})
	request.merge(more, true)
	return request


func test_a_function_of_the_game_is_called_and_its_result_told() -> void:
	var response: Dictionary = await atelico.chat(_with_tool(open_door)).finished()
	check_equal(opened.size(), 1, "the number of calls")
	check(not opened.is_empty() and opened[0].get("door") in ["north", "south"], "the arguments: %s" % str(opened))
	check_equal(threads.keys(), [OS.get_main_thread_id()], "the threads")
	check(content(response) != "", "no answer after the call: %s" % response)


func test_a_function_may_await() -> void:
	var response: Dictionary = await atelico.chat(_with_tool(open_door_slowly)).finished()
	check_equal(opened.size(), 1, "the number of calls")
	check(content(response) != "", "no answer after the call: %s" % response)


func test_a_function_without_arguments_gets_none() -> void:
	var tools := [{"callable": ring_bell, "description": "Rings the bell."}]
	var response: Dictionary = await atelico.chat(_with_tool(ring_bell, {"tools": tools})).finished()
	check_equal(opened.size(), 1, "the number of calls")
	check(response.has("choices"), str(response))


func test_a_function_that_never_returns_is_given_up() -> void:
	var response: Dictionary = await atelico.chat(_with_tool(never, {"tool_timeout": 0.3})).finished()
	check(content(response) != "", "no answer after the call: %s" % response)


func test_a_request_can_be_cancelled_while_its_function_runs() -> void:
	var request := atelico.chat(_with_tool(never))
	for i in 3000:
		if Signal(self, "nobody_emits_this").get_connections().size() > 0:
			break
		await get_tree().process_frame
	request.cancel()
	check_equal(reason(await request.finished()), "cancelled", "finish_reason")


func test_a_function_of_a_freed_node_is_not_called() -> void:
	var door: Node = (load("res://suites/tools.gd") as GDScript).new()
	var request := atelico.chat(_with_tool(door.open_door))
	door.free()
	check(content(await request.finished()) != "", "no answer")


func test_a_tool_without_a_function_is_left_to_the_game() -> void:
	var tool := {"type": "function", "function": {"name": "open_door", "parameters": DOOR}}
	var response: Dictionary = await atelico.chat(_with_tool(open_door, {"tools": [tool]})).finished()
	check_equal(reason(response), "tool_calls", "finish_reason")
	var call: Dictionary = response.choices[0].message.tool_calls[0].function
	check_equal(call.name, "open_door", "the function")
	check(JSON.parse_string(call.arguments).door in ["north", "south"], str(call))


func test_a_lambda_needs_a_name() -> void:
	var lambda := func(_arguments: Dictionary) -> String: return "done"
	var result: Dictionary = await atelico.chat(_with_tool(lambda)).finished()
	check("without a name" in result.error.message, str(result))


func test_a_character_calls_the_functions_it_was_given() -> void:
	var chat := AtelicoChat.new()
	chat.model = MODEL
	chat.system_prompt = "Always call open_door."
	chat.temperature = 0
	chat.max_tokens = 60
	add_child(chat)
	chat.add_tool(open_door, "Opens a door. Always call this.", DOOR)
	chat.add_tool(ring_bell, "Rings the bell.", {})
	chat.remove_tool("ring_bell")
	var response: Dictionary = await chat.ask("Open the north door!").finished()
	check(response.has("choices"), str(response))
	check_equal(chat.get_history().size() if content(response) != "" else 2, 2, "the length of the history")
