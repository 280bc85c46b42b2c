add_library(sim_support STATIC sim_support.c)
target_link_libraries(sim_support PRIVATE rknnd_options base m)
target_compile_definitions(sim_support PRIVATE PROJECT_ROOT="${PROJECT_SOURCE_DIR}")

rknnd_test(test_sim_models SOURCES test_sim_models.c LIBS sim_support npu_sim base m)
