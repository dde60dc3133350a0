extends "res://suite.gd"
## Gets the engine busy, for the runner to quit in the middle of it.

var thread: Thread


func leave(when: String) -> void:
	match when:
		"unused":
			check(atelico.version() != "", "no version")
		"loading":
			atelico.load_model(MODEL)
			atelico.chat(body("Hello."))
			await frames(2)
		"prefilling":
			await atelico.chat(body("Hello.", {"max_tokens": 1})).finished()
			atelico.chat(long_body()).ended.connect(func(_result: Dictionary) -> void: print("too late"))
			await frames(10)
		"generating":
			var request := atelico.chat(body("Count to a thousand.", {"max_tokens": 900}))
			await request.delta
		"awaiting":
			_await_for_ever()
			await frames(30)
		"asking":
			get_tree().change_scene_to_file("res://scenes/talking.tscn")
			await frames(30)
		"same_frame":
			atelico.chat(body("Hello."))


func _await_for_ever() -> void:
	await atelico.chat(body("Count to a thousand.", {"max_tokens": 900})).finished()
	print("too late")
