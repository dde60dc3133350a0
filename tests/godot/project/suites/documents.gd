extends "res://suite.gd"
## The scripts of docs/godot.md, which the tests put into the folder `documents`.


func test_every_script_of_the_documents_compiles() -> void:
	var n_scripts := 0
	for file in DirAccess.get_files_at("res://documents"):
		if file.ends_with(".gd"):
			n_scripts += 1
			var script: GDScript = load("res://documents/" + file)
			check(script != null and script.can_instantiate(), "%s does not compile" % file)
	check(n_scripts >= 4, "only %d scripts" % n_scripts)
