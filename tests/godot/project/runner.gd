extends Node
## Runs the suites and ends the game: prints `ok` or `not ok` per test and a line of counts. Arguments after `--`:
## `--rounds=N`, `--only=SUITE,SUITE`, or `--leave=WHEN` to quit in the middle of something instead.

const Suite := preload("res://suite.gd")
const SUITES: Array[String] = ["freeing", "requests", "text", "errors", "models", "dialogue", "tools", "documents", "frames"]

var _failed := 0
var _passed := 0


func _ready() -> void:
	process_mode = Node.PROCESS_MODE_ALWAYS
	var leave := _argument("leave", "")
	if leave != "":
		var leaving: Node = (load("res://leaving.gd") as GDScript).new()
		add_child(leaving)
		await get_tree().process_frame
		await leaving.call("leave", leave)
		print("leaving: ", leave)
		get_tree().quit()
		return
	var only := _argument("only", "")
	var suites: Array[String] = SUITES if only == "" else Array(Array(only.split(",")), TYPE_STRING, "", null)
	for round_number in _argument("rounds", "1").to_int():
		for suite in suites:
			await _run(suite, round_number)
	print("%d passed, %d failed" % [_passed, _failed])
	get_tree().quit(0 if _failed == 0 else 1)


func _run(suite: String, round_number: int) -> void:
	var script: GDScript = load("res://suites/%s.gd" % suite)
	for method in script.get_script_method_list():
		var test: String = method.name
		if not test.begins_with("test_"):
			continue
		var node: Suite = script.new()
		node.round_number = round_number
		node.name = suite
		add_child(node)
		await node.call(test)
		var name_of_test := "%s.%s (round %d)" % [suite, test.trim_prefix("test_").replace("_", " "), round_number + 1]
		if node.problems.is_empty():
			_passed += 1
			print("ok - ", name_of_test)
		else:
			_failed += 1
			print("not ok - ", name_of_test, ": ", "; ".join(node.problems))
		node.queue_free()
		await get_tree().process_frame


func _argument(argument: String, default: String) -> String:
	for given in OS.get_cmdline_user_args():
		if given.begins_with("--%s=" % argument):
			return given.get_slice("=", 1)
	return default
