extends "res://suite.gd"
## What is different in an exported game: files beside the program, files inside the .pck.


func test_the_library_and_a_model_beside_the_program_are_found() -> void:
	var request := body("Hello.", {"model": "res://models/SmolLM2-135M-Instruct.gguf"})
	var response: Dictionary = await atelico.chat(request).finished()
	check(content(response) != "", str(response))


func test_a_model_inside_the_pck_is_named_as_the_problem() -> void:
	check(FileAccess.file_exists("res://models/packed.gguf"), "the test's file was not packed")
	for path: String in ["res://models/packed.gguf", "models/packed.gguf"]:
		var result: Dictionary = await atelico.chat(body("Hello.", {"model": path})).finished()
		var message: String = result.error.message
		check(".pck" in message and OS.get_executable_path().get_base_dir() + "/models/packed.gguf" in message, message)


func test_a_missing_model_is_looked_for_beside_the_program() -> void:
	var result: Dictionary = await atelico.chat(body("Hello.", {"model": "res://models/none.gguf"})).finished()
	check(OS.get_executable_path().get_base_dir() + "/models/none.gguf" in result.error.message, str(result))


func test_the_interpreter_is_the_one_beside_the_program() -> void:
	var here := OS.get_executable_path().get_base_dir()
	var maps := []
	OS.execute("/bin/cat", ["/proc/%d/maps" % OS.get_process_id()], maps)
	var found := false
	for line: String in maps[0].split("\n"):
		if "libpython" in line or "libllama" in line or "_native" in line:
			found = true
			check(here + "/atelico-runtime/" in line, line)
	check(found, "no interpreter was loaded")
