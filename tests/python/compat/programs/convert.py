"""As the examples of RKNN-Toolkit2 are: a model is converted, written, and tried without a board, then by load_rknn()."""
import sys

import numpy as np
from PIL import Image
from rknn.api import RKNN

DATASET = './dataset.txt'
ONNX_MODEL = 'digits.onnx'
RKNN_MODEL = './digits.rknn'

if __name__ == '__main__':
    rknn = RKNN(verbose=True, verbose_file='./build.log')

    print('--> Config model')
    ret = rknn.config(mean_values=[[0]], std_values=[[255]], quant_img_RGB2BGR=False, quantized_dtype='asymmetric_quantized-8',
                      quantized_algorithm='normal', quantized_method='channel', quantized_hybrid_level=0, float_dtype='float16',
                      optimization_level=3, target_platform='RK3566', custom_string=None, remove_weight=False, compress_weight=False,
                      inputs_yuv_fmt=None, single_core_mode=False, dynamic_input=None, model_pruning=False, op_target=None,
                      quantize_weight=False, remove_reshape=False, sparse_infer=False, enable_flash_attention=False)
    if ret != 0:
        print('Config model failed!')
        sys.exit(ret)
    print('done')

    ret = rknn.load_onnx(model=ONNX_MODEL)
    if ret != 0:
        print('Load model failed!')
        sys.exit(ret)
    ret = rknn.build(do_quantization=True, dataset=DATASET, rknn_batch_size=None)
    if ret != 0:
        print('Build model failed!')
        sys.exit(ret)
    ret = rknn.export_rknn(RKNN_MODEL)
    if ret != 0:
        print('Export rknn model failed!')
        sys.exit(3)

    img = np.expand_dims(np.array(Image.open('7_0.png')), (0, 3))
    ret = rknn.init_runtime(target=None, perf_debug=True, eval_mem=True)
    if ret != 0:
        print('Init runtime environment failed!')
        sys.exit(ret)
    outputs = rknn.inference(inputs=[img], data_format=['nhwc'])
    print('built:', np.argmax(outputs[0]))
    print(rknn.eval_perf())
    rknn.eval_memory()
    print(rknn.get_sdk_version())
    rknn.release()

    rknn = RKNN()
    ret = rknn.load_rknn(path=RKNN_MODEL)
    if ret != 0 or rknn.init_runtime() != 0:
        print('Load rknn model failed!')
        sys.exit(4)
    print('loaded:', np.argmax(rknn.inference(inputs=[img])[0]))
    rknn.release()
