extends SceneTree
## Plays the demo by itself and saves a picture: `godot --path . -s screenshot.gd -- OUT.png`.


func _initialize() -> void:
	_play.call_deferred()


func _play() -> void:
	var inn: Control = (load("res://inn.tscn") as PackedScene).instantiate()
	root.add_child(inn)
	await process_frame
	inn.call("ask", "Good evening! Have you got a room for the night?")
	await (inn.get("innkeeper") as AtelicoChat).finished
	await inn.call("ask_for_work")
	for i in 5:
		await process_frame
	var out: PackedStringArray = OS.get_cmdline_user_args()
	if not out.is_empty():
		await RenderingServer.frame_post_draw
		root.get_texture().get_image().save_png(out[0])
	print((inn.get("talk") as RichTextLabel).get_parsed_text())
	quit()
